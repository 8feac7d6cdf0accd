# One line, one LAN of two ports, forwards of TCP and UDP, and rules of each verb.
wan "fiber" { interface = "eth1" }

lan "home" {
  interface = ["eth0", "eth3"]
  address   = "10.0.10.1/24"
  host "nas" {
    mac     = "02:00:00:00:10:23"
    address = ["10.0.10.23", "::23"]
  }
  host "tablet" { mac = "02:00:00:00:10:31" }
}

forward "web" {
  port = 80
  to   = host.nas
}

forward "vpn" {
  protocol = "udp"
  port     = [4500, "6000-6010"]
  to       = host.nas
}

forward "backup" {
  port    = 2222
  to_port = 22
  to      = host.nas
  from    = "192.0.2.80"
}

allow "ssh" {
  from = wan
  to   = self
  port = 22
}

allow "tunnel" {
  from     = wan
  to       = self
  protocol = "udp"
  port     = 51820
}

reject "ident" {
  from = wan
  to   = self
  port = 113
}

block "bedtime" {
  from = host.tablet
  to   = wan
}

reject "no-mail" {
  from = lan.home
  to   = wan
  port = 25
}

reject "no-console" {
  from     = lan.home
  to       = self
  protocol = "udp"
  port     = 161
}
