# The reference gateway: two lines, each its own world, one house behind them.
gateway "gw" {
  domain = "local"
  cable  = ["172.31.1.0/24", "fd00:1::/64"] # the first cable has 172.31.1.0 and 172.31.1.1 at its ends
}

# IPv4 by DHCP, IPv6 by SLAAC, both translated: an ISP's prefix is not for the house.
wan "fiber" {
  interface = "eth1"
  ipv6 { translate = "nat66" }
}
wan "lte" {
  interface = "eth2"
  ipv6 { translate = "nat66" }
}

failover {
  prefer = [wan.fiber, wan.lte]
  probe { target = ["1.1.1.1", "8.8.8.8", "tcp://1.1.1.1:443", "tcp://9.9.9.9:443"] }
}

lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"] # fd00::/64 is advertised, with fd00::1 for DNS

  dhcp { pool = "172.31.0.100-172.31.0.200" }

  host "nas" {
    mac     = "00:11:32:de:ad:71"
    address = ["172.31.0.23", "fd00::211:32ff:fede:ad71"]
  }

  host "example" {
    mac     = "aa:bb:cc:ee:ff:00"
    address = "172.31.0.123"
  }
}

# From outside by either line, from inside by hairpin, IPv4 and IPv6.
forward "web" {
  port = [80, 443]
  to   = host.nas
}
