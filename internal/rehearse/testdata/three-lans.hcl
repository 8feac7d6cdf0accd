# One line and three LANs on ports of their own: a home, guests, and things.
wan "cable" { interface = "eth9" }

lan "home" {
  interface = "eth0"
  address   = "10.0.10.1/24"
  host "printer" {
    mac     = "02:00:00:00:10:05"
    address = "10.0.10.5"
  }
}

lan "guest" {
  interface = "eth1"
  address   = "10.0.20.1/24"
  reach     = wan
}

lan "things" {
  interface = "eth2"
  address   = "10.0.30.1/24"
  reach     = []
  host "camera" {
    mac     = "02:00:00:00:30:08"
    address = "10.0.30.8"
  }
}

allow "guests-print" {
  from = lan.guest
  to   = host.printer
  port = [631, 9100]
}

block "camera" {
  from = lan.home
  to   = host.camera
  port = 23
}
