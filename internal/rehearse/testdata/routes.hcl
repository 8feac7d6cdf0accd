# Two lines, and routes of each kind; a short hold-down.
wan "fiber" { interface = "eth1" }
wan "lte" { interface = "eth2" }

failover { hold_down = "2s" }

lan "home" {
  interface = "eth0"
  address   = "10.0.10.1/24"
  host "tv" { mac = "02:00:00:00:00:77" }
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["10.0.10.23", "::23"]
  }
}

route "tv" {
  from = host.tv
  only = wan.fiber
}

route "nas" {
  from  = host.nas
  never = wan.lte
}

route "calls" {
  from     = lan.home
  to       = ["203.0.113.0/24", "2001:db8:ca11::/48"]
  protocol = "udp"
  port     = [5060, "10000-20000"]
  prefer   = wan.lte
}

route "mail" {
  from   = self
  port   = 587
  prefer = [wan.lte, wan.fiber]
}
