# Two lines with fixed addresses and one LAN.
wan "fiber" {
  interface = "eth1"
  ipv4 {
    address = "198.51.100.10/24"
    gateway = "198.51.100.1"
  }
  ipv6 {
    address = "2001:db8:1::10/64"
    gateway = "fe80::1"
  }
}

wan "lte" {
  interface = "eth2"
  ipv4 {
    address = "203.0.113.10/24"
    gateway = "203.0.113.1"
  }
  ipv6 {
    address = "2001:db8:2::10/64"
    gateway = "fe80::1"
  }
}

failover { hold_down = "5s" }

lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  dhcp { enabled = false }
  advertise { enabled = false }
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "fd00::23"]
  }
}

forward "web" {
  port = [80, 443]
  to   = host.nas
}
