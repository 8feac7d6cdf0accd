# One line that does not translate IPv4: the LAN's addresses are public.
wan "office" {
  interface = "eth1"
  mtu       = 1400
  ipv4 {
    address   = "198.51.100.10/30"
    gateway   = "198.51.100.9"
    translate = "none"
  }
  ipv6 { delegate = 0 }
}

lan "home" {
  interface = "eth0"
  address   = "203.0.113.1/25"
  host "www" {
    mac     = "02:00:00:00:00:23"
    address = "203.0.113.23"
  }
}

allow "www" {
  from = wan
  to   = host.www
  port = 443
}
