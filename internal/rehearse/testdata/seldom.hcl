# A line that is tried three times a minute, and one that is paid by volume: what is promised
# of an outage follows from that.
wan "fiber" {
  interface = "eth1"
  probe { every = "20s" }
}
wan "lte" {
  interface = "eth2"
  metered   = true
}

failover { hold_down = "5s" }

lan "home" {
  interface = "eth0"
  address   = "10.20.0.1/24"
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = "10.20.0.23"
  }
  host "tv" { mac = "02:00:00:00:00:77" }
}

forward "web" {
  port = 80
  to   = host.nas
}

route "tv" {
  from = host.tv
  only = wan.fiber
}
route "backup" {
  from   = host.nas
  port   = 22
  prefer = [wan.lte, wan.fiber]
}
