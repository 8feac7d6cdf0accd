gateway "gw" { domain = "home.arpa" }
wan "fiber" { interface = "eth1" }
wan "lte" { interface = "eth2" }
failover {
  prefer    = [wan.fiber, wan.lte]
  hold_down = "4s"
  probe { target = ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111"] }
}
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  dhcp { pool = "172.31.0.100-172.31.0.200" }
}
