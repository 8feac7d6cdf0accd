# The second line takes nothing under an address of the first.
wan "fiber" { interface = "eth1" }
wan "lte" {
  interface = "eth2"
  ipv6 { translate = "none" }
}
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}
lan "guest" {
  interface = "eth3"
  address   = "172.31.9.1/24"
  reach     = wan
}
