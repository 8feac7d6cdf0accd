# The simplest home: what is plugged in where, and the gateway's address.
wan "fiber" { interface = "eth1" }

lan "home" {
  interface = "eth0"
  address   = "192.168.77.1/24"
}
