# The first line of IPv4 has no IPv6, so that another is the only one of that; and
# who flaps is followed.
gateway "gw" { domain = "home.arpa" }
wan "fiber" {
  interface = "eth1"
  ipv6 { method = "none" }
}
wan "dsl" { interface = "eth2" }
failover { hold_down = "0s" }
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}
