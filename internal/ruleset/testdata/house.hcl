# A house with something of everything that the rulesets can say.
gateway "gw" {
  cable = ["172.31.255.0/24", "fd00:ff::/64"]
}

wan "fiber" {
  interface = "eth1"
  mtu       = 1400
  ipv4 {
    address = ["198.51.100.10/24", "198.51.100.11/24", "198.51.100.99/24"]
    gateway = "198.51.100.1"
  }
  ipv6 {
    address = "2001:db8:1::10/64"
    gateway = "2001:db8:1::1"
  }
}

# It has an address that fiber has too, and some in the LANs' own ranges.
wan "lte" {
  interface = "eth2"
  metered   = true
  on_return = "stay"
  mtu       = 1420
  ipv4 {
    address = ["203.0.113.10/24", "198.51.100.99/32", "172.31.0.200/24", "172.31.30.200/24"]
    gateway = "203.0.113.1"
  }
  ipv6 {
    address = ["2001:db8:2::10/64", "fd00::200/64"]
    gateway = "2001:db8:2::1"
  }
}

lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]

  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "::23"]
  }
  host "tablet" { mac = "02:00:00:00:00:31" }
}

lan "guest" {
  interface = "eth3"
  address   = ["172.31.20.1/24", "fd00:20::1/64"]
  reach     = wan
  dhcp6 { enabled = true }

  host "laptop" { mac = "02:00:00:00:20:50" }
}

lan "things" {
  interface = "eth4"
  address   = ["172.31.30.1/24", "fd00:30::1/64"]
  reach     = [host.nas, "172.31.30.1", "192.0.2.90"]

  host "camera" {
    mac     = "02:00:00:00:30:08"
    address = "172.31.30.8"
  }
}

group "pests" { member = ["192.0.2.66", "2001:db8:80::66"] }

block "pests" {
  from = group.pests
  to   = host.nas
}

allow "guests-print" {
  from = lan.guest
  to   = host.nas
  port = [631, "9100-9102"]
}

reject "no-mail" {
  from = lan.home
  to   = wan
  port = 25
}

block "bedtime" {
  from     = host.tablet
  to       = wan
  protocol = ["udp", "icmp"]
}

reject "camera-quiet" {
  from = host.camera
  to   = self
  port = 53
}

allow "camera-clock" {
  from     = host.camera
  to       = self
  protocol = "udp"
  port     = 445
}

allow "camera-laptop" {
  from = host.camera
  to   = host.laptop
  port = 445
  fast = false
}

allow "neighbours" {
  from = "10.99.0.0/24"
  to   = host.nas
  port = 445
}

allow "admin" {
  from = ["192.0.2.77", "2001:db8:80::77"]
  to   = self
  port = 22
}

reject "ident" {
  from     = wan
  to       = self
  protocol = ["tcp", "udp"]
  port     = 113
}

allow "admin-ping" {
  from     = ["192.0.2.77", "2001:db8:80::77"]
  to       = self
  protocol = "icmp"
}

reject "cold-ping" {
  from     = ["192.0.2.90", "2001:db8:80::90"]
  to       = self
  protocol = "icmp"
}

block "no-ping" {
  from     = ["192.0.2.64/27", "2001:db8:80::40/122"]
  to       = self
  protocol = "icmp"
}

reject "cold-call" {
  from = ["192.0.2.90", "2001:db8:80::90"]
  to   = host.nas
}

forward "web" {
  port = [80, 443]
  to   = host.nas
}

forward "quic" {
  protocol = "udp"
  port     = 443
  to       = host.nas
}

forward "cam" {
  port = 554
  to   = host.camera
}

forward "rtp" {
  protocol = "udp"
  port     = ["10000-10020", 5060]
  to_port  = ["30000-30020", 5060]
  to       = host.nas
  on       = wan.fiber
}

forward "backup" {
  protocol = ["tcp", "udp"]
  port     = 2222
  to_port  = 22
  to       = host.nas
  from     = ["192.0.2.77", "2001:db8:80::77"]
}

forward "shy" {
  port    = 8080
  to      = host.nas
  hairpin = false
}
