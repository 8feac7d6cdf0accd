# One line, and names by BIND: zones, records, an alias.
gateway "gw" { domain = "house.example" }

wan "fiber" { interface = "eth1" }

lan "home" {
  interface = "eth0"
  address   = ["10.0.10.1/24", "fd5e:7a11:c0de:1::1/64"]
  host "nas" {
    mac     = "02:00:00:00:10:23"
    address = ["10.0.10.23", "fd5e:7a11:c0de:1::23"]
    alias   = "files"
  }
}

dns {
  zone "house.example" {
    record "@" {
      mx  = ["10 nas", "20 mx.example.net."]
      caa = "0 issue ca.example"
    }
    record "_sip._tcp" { srv = "0 5 5060 nas" }
    record "*.apps" { address = host.nas }
    record "printer" { address = "10.0.10.9" }
    record "www" { cname = "nas" }
  }
  zone "example.org" {
    record "@" { address = host.nas }
  }
}
