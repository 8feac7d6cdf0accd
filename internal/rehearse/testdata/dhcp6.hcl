# Addresses and prefixes by DHCPv6.
gateway "gw" {
  domain = "home.arpa"
  ula    = "fd57:e1:a::/48"
}
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd57:e1:a::1/64"]
  dhcp6 {
    pool     = "::1000-::1fff"
    delegate = 60
  }
}
dns { engine = "forward" }
