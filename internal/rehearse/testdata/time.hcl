# Time servers by their addresses and by their names.
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
}
time { server = ["192.0.2.123", "ntp.example.org", "ntp.example.net"] }
