# Every key of this release, none at its default.
gateway "cellar" {
  domain   = "example.net"
  timezone = "Europe/Berlin"
  cable    = ["172.31.1.0/24", "fd00:1::/64"]
  ula      = "fd5e:7a11:c0de::/48"
}

wan "lte" {
  interface = "eth2"
  metered   = true
  ipv4 {
    method                  = "dhcp"
    client_id               = "hex:01020000000001"
    hostname                = "cellar-lte"
    vendor_class            = "dslforum.org"
    ignore_classless_routes = true
  }
  ipv6 { method = "slaac" }
  probe {
    target  = ["tcp://198.51.100.7:443", "dns://192.0.2.53/name.example", "dns://192.0.2.54:5353"]
    every   = "1s"
    timeout = "2s"
  }
}

wan "fiber" {
  interface = "eth1"
  vlan      = 7
  mac       = "02:00:00:00:00:F1"
  mtu       = 1492
  ipv4 {
    address   = ["198.51.100.10/24", "198.51.100.11/24"]
    gateway   = "198.51.100.1"
    translate = "nat44"
  }
  ipv6 {
    method    = "static"
    address   = "2001:db8:1::10/64"
    gateway   = "fe80::1"
    translate = "nat66"
  }
}

wan "link" {
  interface = "eth3"
  ipv4 {
    address   = "192.168.2.1/30"
    gateway   = "192.168.2.2"
    translate = "none"
  }
  ipv6 { method = "none" }
}

failover {
  prefer    = [wan.fiber, wan.lte]
  hold_down = "1m30s"
  probe {
    target  = ["1.1.1.1", "2606:4700:4700::1111"]
    every   = "500ms"
    timeout = "800ms"
  }
  degraded {
    loss    = 30
    latency = "1s"
  }
}

lan "home" {
  interface = ["eth0", "eth4"]
  address   = ["10.0.10.1/24", "fd00::1/64"]
  reach     = [wan, lan.things, self, "192.168.2.0/30"]
  mtu       = 9000

  dhcp {
    enabled = true
    pool    = ["10.0.10.100-10.0.10.150", "10.0.10.200"]
    lease   = "2h"
    option = {
      ntp-servers         = ["10.0.10.1", "10.0.10.2"]
      domain-name-servers = "10.0.10.23"
      time-offset         = -3600
      224                 = "hex:0a"
    }
    bootp       = false
    unknown     = "deny"
    next_server = "10.0.10.9"
    boot_file   = "undionly.kpxe"
    class "uefi" {
      vendor    = ["PXEClient", "HTTPClient"]
      user      = "x"
      arch      = [7, 9]
      option    = { 43 = "hex:06:01:08" }
      boot_file = "ipxe.efi"
    }
    subnet "up" {
      prefix = "10.0.50.0/24"
      pool   = "10.0.50.7"
      router = "10.0.50.1"
      option = { domain-name = "up" }
    }
  }

  advertise {
    enabled = true
    prefix  = "fd00::/64"
    dns     = "fd00::23"
    search  = ["example.net", "Home.Arpa"]

    router_lifetime    = "10m"
    preferred_lifetime = "20m"
    valid_lifetime     = "40m"
    managed            = true
    other              = true
    pref64             = "64:ff9b::/96"
    captive_portal     = "https://portal.example/api"
  }

  dhcp6 {
    pool     = "::1000-::1fff"
    delegate = 60
  }

  host "nas" {
    mac     = ["00:11:32:DE:AD:71", "00:11:32:de:ad:72"]
    address = ["10.0.10.23", "fd00::23", "::24"]
    name    = "files"
  }
  host "tablet" { mac = "02:00:00:00:10:31" }
}

lan "things" {
  interface = "eth5"
  vlan      = 30
  address   = "10.0.30.1/24"
  reach     = []
  dhcp { pool = [] }
  advertise {
    prefix = []
    dns    = []
    search = []
  }
  host "camera" {
    mac       = "02:00:00:00:30:08"
    client_id = "cam"
    address   = ["10.0.30.8", "::8"]
  }
}

group "children" { member = [host.tablet, "10.0.10.64/26"] }
group "friends" { member = ["203.0.113.0/24", "2001:db8:f::/48"] }

block "bedtime" {
  from     = [group.children, host.tablet]
  to       = wan
  protocol = ["tcp", "udp", "icmp", 132]
}

allow "print" {
  from = lan.things
  to   = host.nas
  port = [631, "9100-9102"]
}

reject "ssh" {
  from     = [lan, "10.9.9.9"]
  to       = self
  protocol = ["tcp", "udp"]
  port     = 22
}

forward "web" {
  port    = [80, 443]
  to      = host.nas
  to_port = [8080, 8443]
  from    = [group.friends, "192.0.2.1"]
  on      = [wan.fiber, wan.lte]
  hairpin = false
}

forward "rtp" {
  protocol = ["udp", "tcp"]
  port     = "10000-20000"
  to       = host.camera
  to_port  = "30000-40000"
  on       = wan
}

forward "game" {
  protocol = "udp"
  port     = 3074
  to       = ["10.0.10.77", "fd00::77"]
}

route "calls" {
  from     = [lan.home, host.camera]
  protocol = ["udp", "tcp"]
  port     = [5060, "10000-20000"]
  prefer   = [wan.lte, wan.fiber]
}

route "work" {
  from = [group.children, host.nas, self, "10.0.10.9"]
  to   = [group.friends, "198.51.100.0/24"]
  only = [wan.fiber, wan.lte]
}

route "cheap" {
  from     = lan
  to       = wan
  protocol = "icmp"
  never    = wan.lte
}

dns {
  engine   = "forward"
  upstream = ["9.9.9.9", "tls://149.112.112.112#dns.quad9.net", "[2620:fe::fe]:5353"]
}

api { group = "adm" }

time {
  server = ["192.0.2.123", "[2001:db8::123]", "ntp.example.org", "nts://time.example.org"]
  serve  = false
}
