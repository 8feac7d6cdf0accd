# A home with guests and things: three VLANs on one cable to the switch.
gateway "gw" { domain = "home.arpa" }

wan "cable" { interface = "eth1" }

lan "home" {
  interface = "eth0"
  vlan      = 10
  address   = "10.0.10.1/24"

  host "printer" {
    mac     = "02:00:00:00:10:05"
    address = "10.0.10.5"
  }
  host "tablet" { mac = "02:00:00:00:10:31" } # address from the pool, known by name
  host "console" { mac = ["02:00:00:00:10:41", "02:00:00:00:10:42"] }
}

lan "guest" {
  interface = "eth0"
  vlan      = 20
  address   = "10.0.20.1/24"
  reach     = wan # the internet and nothing else
  dhcp { lease = "1h" }
}

lan "things" {
  interface = "eth0"
  vlan      = 30
  address   = "10.0.30.1/24"
  reach     = [] # answers the house, starts nothing by itself

  host "vacuum" { mac = "02:00:00:00:30:07" }
  host "camera" {
    mac     = "02:00:00:00:30:08"
    address = "10.0.30.8"
  }
}

group "children" { member = [host.tablet, host.console] }

allow "guests-print" {
  from = lan.guest
  to   = host.printer
  port = [631, 9100]
}

allow "vacuum-map" {
  from = host.vacuum
  to   = wan
  port = 443
}
