# Two lines that are paid by volume: no probe goes by one that has traffic.
wan "fiber" {
  interface = "eth1"
  metered   = true
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
