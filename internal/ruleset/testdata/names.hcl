# Names that are words of nft, ip or the kernel, and ports of such names.
wan "ip" {
  interface = "fwd"
  ipv4 {
    address = "198.51.100.10/24"
    gateway = "198.51.100.1"
  }
}

wan "log" {
  interface = "snat"
  ipv4 {
    address = "203.0.113.10/24"
    gateway = "203.0.113.1"
  }
  ipv6 { method = "none" }
}

lan "up" {
  interface = "table"
  address   = "172.31.0.1/24"
  reach     = [wan.log, lan.drop, group.set]

  host "accept" {
    mac     = "02:00:00:00:00:23"
    address = "172.31.0.23"
  }
  host "mark" { mac = "02:00:00:00:00:31" }
}

lan "drop" {
  interface = "chain"
  address   = "172.31.20.1/24"
  reach     = host.mark
}

group "set" { member = [self, "192.0.2.0/24", "2001:db8::/32"] }

allow "tcp" {
  from = "0.0.0.0/0"
  to   = lan.up
}

block "accept" {
  from     = ["192.0.2.1", "192.0.2.0/25", "::/0"]
  to       = lan
  protocol = "icmp"
}

reject "policy" {
  from     = [host.mark, host.accept]
  protocol = [47, "tcp"]
}

forward "counter" {
  port = [80, "8000-8010", 8011]
  to   = host.accept
}

forward "dnat" {
  protocol = ["tcp", "udp"]
  port     = ["100-102", 7]
  to_port  = ["200-202", 7]
  to       = host.accept
  on       = wan.log
  from     = ["172.31.20.0/24", "198.51.100.0/24"]
}
