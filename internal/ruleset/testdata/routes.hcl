# Lines chosen per device and per connection. Each has the other's address besides, so that
# no line's namespace can tell what came by the wrong cable.
gateway "gw" {
  cable = ["172.31.255.0/24", "fd00:ff::/64"]
}

wan "fiber" {
  interface = "eth1"
  ipv4 {
    address = ["198.51.100.10/24", "203.0.113.10/32"]
    gateway = "198.51.100.1"
  }
  ipv6 {
    address = ["2001:db8:1::10/64", "2001:db8:2::10/128"]
    gateway = "2001:db8:1::1"
  }
}

wan "lte" {
  interface = "eth2"
  ipv4 {
    address = ["203.0.113.10/24", "198.51.100.10/32"]
    gateway = "203.0.113.1"
  }
  ipv6 {
    address = ["2001:db8:2::10/64", "2001:db8:1::10/128"]
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
}

lan "things" {
  interface = "eth4"
  address   = ["172.31.30.1/24", "fd00:30::1/64"]
  reach     = []

  host "camera" {
    mac     = "02:00:00:00:30:08"
    address = ["172.31.30.8", "fd00:30::8"]
  }
}

forward "web" {
  port = 80
  to   = host.nas
}

# What is blocked stays silent, whatever line it would have had.
block "games" {
  from = host.tablet
  to   = wan
  port = 22
}

# The narrower first.
route "tablet-mail" {
  from   = host.tablet
  port   = 25
  prefer = wan.lte
}

route "tablet" {
  from = host.tablet
  only = wan.fiber
}

route "nas" {
  from  = host.nas
  never = wan.lte
}

route "calls" {
  from     = lan.guest
  protocol = "udp"
  port     = [5060, "10000-20000"]
  prefer   = wan.lte
}

route "bank" {
  to   = ["192.0.2.90", "2001:db8:80::90"]
  only = [wan.lte]
}

route "own-mail" {
  from  = self
  port  = 25
  never = wan.fiber
}

# The gateway's own address is one of them.
route "low" {
  from   = ["172.31.0.0/26", "fd00::/120"]
  port   = 53
  prefer = wan.lte
}
