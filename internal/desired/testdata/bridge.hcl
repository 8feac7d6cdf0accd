# A line on a VLAN, two on one port; a LAN of three ports and one of two VLANs.
wan "fiber" {
  interface = "eth1"
  vlan      = 7
  mtu       = 1492
  mac       = "02:00:00:00:00:07"
}

wan "cable" {
  interface = "eth1"
  vlan      = 8
  ipv6 { method = "none" }
}

wan "jumbo" {
  interface = "wwan0"
  mtu       = 9000
  ipv4 { method = "none" }
}

lan "home" {
  interface = ["eth0", "eth2", "eth3"]
  address   = "10.20.0.1/22"
  mtu       = 1400
}

lan "guest" {
  interface = ["eth0", "enx0123456789ab"]
  vlan      = 20
  mtu       = 9000
  address   = "10.30.0.1/24"
  reach     = wan
}
