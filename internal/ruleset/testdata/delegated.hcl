# Prefixes of two ISPs: one whose line translates what is not in its own, one whose line refuses that.
gateway "gw" { ula = "fd5e:7a11:c0de::/48" }
wan "fiber" {
  interface = "eth1"
  ipv6 { delegate = 56 }
}
wan "cable" {
  interface = "eth2"
  ipv6 {
    delegate  = 60
    translate = "none"
  }
}
wan "lte" {
  interface = "eth3"
  ipv6 { delegate = 0 }
}
lan "home" {
  interface = "eth0"
  address   = "10.0.10.1/24"
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["10.0.10.23", "::23"]
  }
}
lan "guest" {
  interface = "eth4"
  address   = "10.0.20.1/24"
  reach     = wan
}
allow "guests-print" {
  from = lan.guest
  to   = host.nas
  port = 631
}
