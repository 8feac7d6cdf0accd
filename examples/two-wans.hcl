# Fibre, and a metered LTE stick that must not be eaten by the backup. Which device takes
# which line is said by routes; `weir why nas 192.0.2.80:443` explains one connection.
wan "fiber" { interface = "eth1" }

wan "lte" {
  interface = "wwan0"
  metered   = true # few probes, used last
  ipv6 { method = "none" }
}

lan "home" {
  interface = "eth0"
  address   = ["10.20.0.1/22", "fd5e:7a11:c0de::1/64"]
  dhcp { pool = "10.20.1.1-10.20.3.200" }

  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["10.20.0.23", "::23"] # ::23 in whatever prefix the LAN has
  }
  host "phone" {
    mac     = "02:00:00:00:00:50"
    address = "10.20.0.50"
  }
  host "laptop" { mac = "02:00:00:00:00:61" }
}

# Its nightly upload waits for fiber rather than empty the LTE plan.
route "nas-not-on-lte" {
  from  = host.nas
  never = wan.lte
}

# Small, and away from the uploads; by fiber where LTE is gone, or has no IPv6.
route "calls" {
  from     = host.phone
  protocol = "udp"
  port     = [5060, "10000-20000"]
  prefer   = [wan.lte, wan.fiber]
}

# A kill-switch: nothing rather than another line.
route "work" {
  from = host.laptop
  to   = ["203.0.113.0/24", "2001:db8:c0de::/48"]
  only = wan.fiber
}

forward "backup" {
  port    = 2222
  to      = host.nas
  to_port = 22
}
