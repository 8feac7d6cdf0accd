# A second line that is paid by volume: what failover put on it moves back.
gateway "gw" { domain = "home.arpa" }
wan "fiber" { interface = "eth1" }
wan "lte" {
  interface = "eth2"
  metered   = true
  ipv6 { method = "none" }
}
failover { hold_down = "5s" }
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}
