# One line, and a LAN whose dhcp block has classes and a network behind a relay.
wan "fiber" { interface = "eth1" }

lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
  dhcp {
    pool = "172.31.0.100-172.31.0.199"
    class "menu" {
      user        = "iPXE"
      next_server = "172.31.0.9"
      boot_file   = "menu.ipxe"
      option      = { 224 = "hex:0a 0b" }
    }
    class "uefi" {
      vendor      = "PXEClient"
      arch        = [7, 9]
      next_server = "172.31.0.9"
      boot_file   = "ipxe.efi"
    }
    subnet "upstairs" {
      prefix = "172.31.50.0/24"
      pool   = "172.31.50.1-172.31.50.110"
    }
    subnet "shed" {
      prefix = "172.31.60.0/24"
      pool   = "172.31.60.100-172.31.60.110"
      router = "172.31.60.254"
    }
  }
}
