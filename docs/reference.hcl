# The language of weir 0.1: every block and key. What is optional stands at its default, so that this
# file means the same without it; a default that cannot be written down is told, and the key stands
# behind a #. It is a reference to read, not a house to run. Made from the table in internal/config.
# What can be pointed at is called neither group, host, lan, peer, self, tunnel nor wan: by those words a file points.

# The gateway itself. Its label is its host name; without the block that is gw.
gateway "gw" {
  # The house's domain: names of hosts end in it.
  # Domain. Unsaid: home.arpa. Source: RFC 8375; option 15, DNSSL.
  domain = "home.arpa"

  # The house's time.
  # Time zone. Unsaid: the machine's. Source: tz database.
  # timezone = "Europe/Berlin"

  # Networks of the patch cables between the house and its lines, at most one of each family; a pair
  # of addresses for each WAN in file order.
  # Network; one or a list. Unsaid: IPv4: a /24 clear of everything in the file; IPv6: the last /64
  # of ula. Source: veth addresses, /31 (RFC 3021) and /127 (RFC 6164).
  # cable = ["172.31.255.0/24", "fd00:1::/64"]

  # The house's own IPv6 network, a /48 in fd00::/8.
  # Network. Unsaid: a random one, made once and kept. Source: RFC 4193, 3.2.
  # ula = "fd5e:7a11:c0de::/48"

  # Programs in the kernel that carry packets past what would only pass them on. auto: by the best
  # form there is on each port; off: none.
  # "auto" or "tc" or "off" (later: "xdp"). Unsaid: off. Source: tc-bpf(8), tcx.
  fast_path = "off"
}

# A line to an ISP. Its name is also the cable's and, as wan-NAME, its network namespace's.
wan "fiber" {
  # The port that the modem is plugged into. A port belongs to one WAN or one LAN, VLANs apart.
  # Port's name. Required. Source: IFNAMSIZ.
  interface = "eth1"

  # The VLAN that the ISP wants on the port.
  # Number, 1 to 4094 (VID). Unsaid: untagged. Source: 802.1Q VID.
  # vlan = 7

  # What the ISP sees.
  # MAC address. Unsaid: the port's own. Source: IFLA_ADDRESS.
  # mac = "02:00:00:00:00:01"

  # The largest packet of the line; at least 1280 unless IPv6 is off.
  # Number, 68 to 9216 (bytes). Unsaid: from DHCP, RA or the port. Source: IFLA_MTU, option 26.
  # mtu = 1500

  # The line is paid by volume: its own traffic stands in for most probes, and it is last in prefer.
  # True or false. Unsaid: false.
  metered = false

  # What becomes of this line's connections when a preferred line is used again: they stay until
  # they end, or they move: TCP is reset, all else goes on by the other line at once.
  # "stay" or "move". Unsaid: stay; move if metered.
  on_return = "stay"

  # How the line gets IPv4.
  ipv4 {
    # Where the line's address comes from.
    # "dhcp" or "static" or "none". Unsaid: static if address is said, else dhcp. Source: RFC 2131.
    method = "dhcp"

    # With static: the line's own addresses, each with its network; the first is the one that the
    # house appears as.
    # Address with its network; one or a list. Unsaid: none. Source: ip-address(8).
    # address = "198.51.100.10/24"

    # With static: the ISP's router. It may be off the link.
    # Address. Unsaid: none; static needs it. Source: ip-route(8) via.
    # gateway = "198.51.100.1"

    # What becomes of the house's addresses on their way out.
    # "nat44" or "none". Unsaid: nat44. Source: RFC 3022.
    translate = "nat44"

    # With dhcp: who we say we are; hex:... for bytes.
    # Text, 2 to 255 bytes. Unsaid: made of the MAC. Source: option 61, RFC 2132, 9.14.
    # client_id = "hex:01020000000001"

    # With dhcp: the name that is sent.
    # Text, 1 to 255 bytes. Unsaid: the gateway's name. Source: option 12.
    # hostname = "gw"

    # With dhcp: what the ISP wants its customers' routers to say they are; hex:... for bytes.
    # Text, 1 to 255 bytes. Unsaid: none. Source: option 60, RFC 2132, 9.13.
    # vendor_class = "dslforum.org"

    # For ISPs whose option 121 lacks the default route: do without it and use the router option.
    # True or false. Unsaid: false. Source: option 121, RFC 3442.
    ignore_classless_routes = false

    # The line's own resolvers, in place of those that the ISP names. They are asked over this line
    # alone, and only where a dns block wants the line's own.
    # Address; one or a list. Unsaid: what DHCP says; with static none. Source: option 6.
    # dns = "198.51.100.53"
  }

  # How the line gets IPv6.
  ipv6 {
    # Where the line's own address comes from: the ISP's router advertisements (slaac), DHCPv6
    # (dhcp), or both where the advertisements say that there is one by DHCPv6, the M flag (auto).
    # With auto the O flag has DHCPv6 asked for a resolver, if no lease brings one. The default
    # route is always the advertisements', but with static.
    # "auto" or "slaac" or "dhcp" or "static" or "none". Unsaid: static if address is said, else
    # auto. Source: RFC 4862, 8415.
    method = "auto"

    # With static: the line's own addresses, each with its network.
    # Address with its network; one or a list. Unsaid: none. Source: ip-address(8).
    # address = "2001:db8:1::10/64"

    # With static: the ISP's router. A link-local address is right.
    # Address. Unsaid: none; static needs it. Source: ip-route(8) via.
    # gateway = "fe80::1"

    # Ask the ISP for a prefix of this length, 48 to 64: a /64 of it for each LAN. The ISP may give
    # another length, or none. 0 asks for none.
    # Number, 0 to 64 (bits). Unsaid: 56; 0 with static or none, or if translate is nat66. Source:
    # IA_PD, RFC 8415, 18.2.1.
    delegate = 56

    # As in ipv4.
    # Address; one or a list. Unsaid: what DHCPv6 says, then the router's advertisements; with
    # static none. Source: option 23, RFC 3646; RDNSS, RFC 8106.
    # dns = "2001:db8:1::53"

    # What becomes of the house's addresses on their way out. With npt addresses in the line's
    # delegated prefix stay as they are, and all others are put into it one to one; as long as the
    # ISP delegates nothing it is nat66. With none whatever is not in that prefix is refused.
    # "nat66" or "npt" or "none". Unsaid: npt; nat66 where no prefix is asked for. Source: netfilter
    # snat; RFC 6296 for npt.
    translate = "npt"
  }

  # How this line is tried, where it needs something else than the others.
  probe {
    # Who is asked, as in failover's probe.
    # Target; one or a list. Unsaid: a family without a target has those of failover's probe.
    # Source: as there.
    # target = ["tcp://198.51.100.7:443", "dns://192.0.2.53/name.example"]

    # The time between two probes while the line is in use.
    # Time, 50ms to 1m. Unsaid: as failover's probe.
    # every = "1s"

    # How long an answer is waited for.
    # Time, 10ms to 10s. Unsaid: as failover's probe. Source: RFC 6298.
    # timeout = "2s"
  }

  # Later: on, weight, modem, pppoe { }, shape { }, wireguard { }.
}

# Which line is used, and how lines are tried.
failover {
  # The lines, best first. One that is left out carries only what names it.
  # Name: wan.NAME, wan; one or a list. Unsaid: every WAN in file order, metered ones last.
  # prefer = [wan.fiber]

  # How long a line has to be good before it is used again. Doubles with every relapse, up to 1h; a
  # good hour forgives one. With 0s the house follows a line that flaps, each time.
  # Time, 0s to 1h. Unsaid: 30s.
  hold_down = "30s"

  # How lines are tried.
  probe {
    # Who is asked, and how: an address for an echo, tcp://ADDRESS:PORT for a connection, which is
    # closed at once (accepted or refused: both are answers), dns://ADDRESS/NAME for a question over
    # UDP (without /NAME for the root; any response is an answer but SERVFAIL). Any one that answers
    # shows that the line works. New connections leave a line that answers echoes alone, if another
    # line answers the rest. A family without a target has its defaults.
    # Target; one or a list. Unsaid: these. Source: ICMP echo, RFC 792, 4443; TCP, RFC 9293; DNS,
    # RFC 1035.
    target = ["1.1.1.1", "9.9.9.9", "tcp://1.1.1.1:443", "tcp://8.8.8.8:443", "2606:4700:4700::1111", "2620:fe::fe", "tcp://[2606:4700:4700::1111]:443", "tcp://[2001:4860:4860::8888]:443"]

    # The line in use, and one that a route may lead to: one target in turn. A line in reserve is
    # tried an eighth as often. A metered one each 30s, and at once when its traffic stops.
    # Time, 50ms to 1m. Unsaid: 250ms.
    every = "250ms"

    # How long an answer is waited for.
    # Time, 10ms to 10s. Unsaid: from measured round trips, at most 1s. Source: RFC 6298.
    # timeout = "500ms"
  }

  # From when on a line that works is bad. New connections leave it if another line is clearly
  # better.
  degraded {
    # Past it the line is degraded, until it loses half of it. 100 is never.
    # Number, 1 to 100 (percent of the last 64 probes). Unsaid: 20.
    loss = 20

    # Past it, by the median of the last 16 round trips, the line is degraded, until three quarters
    # of it. What the house's own transfers do to a line moves nothing.
    # Time, 10ms to 1m. Unsaid: 400ms.
    latency = "400ms"
  }
}

# A network of the house. It is also a zone: reach says where it may open connections.
lan "home" {
  # The LAN's port. Several are bridged.
  # Port's name; one or a list. Required. Source: IFNAMSIZ.
  interface = "eth0"

  # Several LANs on one cable are told apart by it.
  # Number, 1 to 4094 (VID). Unsaid: untagged. Source: 802.1Q VID.
  # vlan = 20

  # The gateway's own addresses there, each with its network, at most one of IPv4. Without an IPv6
  # one it is ::1 in a /64 of ula.
  # Address with its network; one or a list. Required. Source: ip-address(8).
  address = "10.0.10.1/24"

  # What devices there may open connections to; [] is nothing. The gateway's DHCP, DNS, time and
  # ping are always there.
  # Place (wan.NAME, wan, lan.NAME, lan, host.NAME, group.NAME, self, an address or a network in
  # quotes); one or a list, [] is none. Unsaid: everything.
  # reach = wan

  # The largest packet there. The port is set to it, and devices are told.
  # Number, 1280 to 9216 (bytes). Unsaid: the port's. Source: IFLA_MTU; RA MTU, RFC 4861, 4.6.4;
  # option 26.
  # mtu = 1500

  # The domains that devices there are in: each has its name in all of them, and is told to look
  # names up in them; an address is called by the first. Domains of its own need BIND.
  # Domain; one or a list. Unsaid: the gateway's domain. Source: options 15 and 119; DNSSL, RFC
  # 8106.
  # domain = ["lab.home.arpa", "corp.example"]

  # The DHCPv4 server.
  dhcp {
    # Whether there is one.
    # True or false. Unsaid: true.
    enabled = true

    # Addresses for devices that have none of their own; [] serves known hosts only. Hosts may have
    # fixed addresses inside it.
    # Range of addresses; one or a list, [] is none. Unsaid: the upper half of the LAN's network.
    # Source: RFC 2131.
    # pool = "10.0.10.128-10.0.10.254"

    # How long an address is promised.
    # Time, 2m to 30d. Unsaid: 12h. Source: option 51.
    lease = "12h"

    # Further options, by name or by number; what has no name takes text, or bytes as "hex:0a 00 0a
    # 01".
    # Map. Unsaid: router, DNS and domain are the gateway's. Source: RFC 2132, names as in
    # dhcp-options(5).
    # Names: boot-size, bootfile-name, captive-portal, capwap-ac-v4, default-ip-ttl, domain-name,
    # domain-name-servers, domain-search, font-servers, interface-mtu, ip-forwarding, log-servers,
    # lpr-servers, netbios-dd-server, netbios-name-servers, netbios-node-type, netbios-scope,
    # nis-domain, nis-servers, nntp-server, ntp-servers, pcode, pop-server, root-path, routers,
    # smtp-server, tcode, tftp-server-address, tftp-server-name, time-offset, time-servers,
    # v6-only-preferred, vendor-class-identifier, vendor-encapsulated-options, www-server,
    # x-display-manager.
    # option = { ntp-servers = "10.0.10.1" }

    # Whether devices that speak BOOTP only are answered. Their leases have no end: those that are
    # no host get a quarter of the pool (at most 256 addresses), and when that is used up, the one
    # longest unseen that answers no ARP goes.
    # True or false. Unsaid: true. Source: RFC 951, 1534.
    bootp = true

    # Whether devices that are no host of this LAN are answered.
    # "allow" or "deny". Unsaid: allow.
    unknown = "allow"

    # The server of boot_file.
    # Address. Unsaid: none. Source: siaddr, RFC 2131, 2; option 66 for who asks.
    # next_server = "10.0.10.9"

    # What a device that boots over the network loads: a path on next_server, or a URL.
    # Text, 1 to 127 bytes. Unsaid: none. Source: file, RFC 2131, 2; option 67 for who asks.
    # boot_file = "undionly.kpxe"

    # Devices that say something of themselves: all that is said here must fit, and of a list one.
    # The first class that a device is of goes before the LAN's option, next_server and boot_file.
    class "uefi" {
      # What its vendor class begins with.
      # Text, 1 to 255 bytes; one or a list. Unsaid: any. Source: option 60, RFC 2132, 9.13.
      vendor = "PXEClient"

      # One of its user classes.
      # Text, 1 to 254 bytes; one or a list. Unsaid: any. Source: option 77, RFC 3004.
      # user = "iPXE"

      # What it boots on: 0 BIOS, 6 UEFI of 32 bits, 7 and 9 UEFI of 64 bits, 11 UEFI on ARM64, 16
      # UEFI by HTTP.
      # Number, 0 to 65535 (IANA's processor architecture type); one or a list. Unsaid: any. Source:
      # option 93, RFC 4578.
      # arch = [7, 9]

      # Options for it.
      # Map. Unsaid: the LAN's. Source: RFC 2132.
      # option = { vendor-class-identifier = "HTTPClient" }

      # The server of boot_file.
      # Address. Unsaid: the LAN's. Source: siaddr, RFC 2131, 2; option 66 for who asks.
      # next_server = "10.0.10.9"

      # What a device that boots over the network loads: a path on next_server, or a URL.
      # Text, 1 to 127 bytes. Unsaid: the LAN's. Source: file, RFC 2131, 2; option 67 for who asks.
      boot_file = "ipxe.efi"
    }

    # A network behind a relay in this LAN: devices are in it whose relay, or the link that it names
    # (RFC 3527), is. They get its addresses; how their packets travel is the relay's router's
    # business.
    subnet "upstairs" {
      # The network.
      # Network. Required. Source: giaddr, RFC 2131.
      prefix = "10.0.50.0/24"

      # Addresses for its devices.
      # Range of addresses; one or a list, [] is none. Unsaid: the upper half of it. Source: RFC
      # 2131.
      # pool = "10.0.50.128-10.0.50.254"

      # Their router.
      # Address. Unsaid: the relay's address, where it is in the network. Source: option 3.
      # router = "10.0.50.1"

      # Options for them.
      # Map. Unsaid: the LAN's. Source: RFC 2132.
      # option = { domain-name = "upstairs.home.arpa" }
    }
  }

  # Router advertisements: how devices get IPv6.
  advertise {
    # Whether there are any.
    # True or false. Unsaid: true. Source: RFC 4861.
    enabled = true

    # Prefixes that devices make addresses in; each a /64 (RFC 4862).
    # Network; one or a list, [] is none. Unsaid: each /64 of the LAN's addresses. Source: PIO, RFC
    # 4861, 4.6.2.
    # prefix = "fd5e:7a11:c0de:1::/64"

    # The resolvers that devices are told of.
    # Address; one or a list, [] is none. Unsaid: the gateway. Source: RDNSS, RFC 8106.
    # dns = "fd5e:7a11:c0de:1::1"

    # Domains that devices add to short names.
    # Domain; one or a list, [] is none. Unsaid: the house's domain. Source: DNSSL, RFC 8106.
    # search = "home.arpa"

    # How long devices take the gateway for their router. 0s: they never do. It is 0 too while no
    # line carries IPv6.
    # Time, 0s to 65535s. Unsaid: 30m. Source: RFC 4861, 6.2.1; RFC 8319.
    router_lifetime = "30m"

    # How long devices open connections from an address. Less where the ISP's lease of the prefix
    # has less left.
    # Time, 1m to 30d. Unsaid: 45m. Source: AdvPreferredLifetime; RFC 9096, 3.4.
    preferred_lifetime = "45m"

    # How long devices keep an address; at least preferred_lifetime. Less where the ISP's lease of
    # the prefix has less left.
    # Time, 1m to 30d. Unsaid: 90m. Source: AdvValidLifetime; RFC 9096, 3.4.
    valid_lifetime = "90m"

    # Whether devices are told that DHCPv6 has addresses for them.
    # True or false. Unsaid: true where dhcp6 has pool or delegate, else false. Source: M, RFC 4861,
    # 4.2.
    managed = false

    # Whether devices are told that DHCPv6 has the rest: resolvers, domains, time.
    # True or false. Unsaid: true with dhcp6, else false. Source: O, RFC 4861, 4.2.
    other = false

    # The network in which a NAT64 of the house has the addresses of IPv4; a /96, /64, /56, /48, /40
    # or /32.
    # Network. Unsaid: none. Source: RFC 8781; RFC 6052, 2.2.
    # pref64 = "64:ff9b::/96"

    # Where devices ask whether they have to sign in: the URL of the portal's API.
    # Text, 10 to 255 bytes. Unsaid: none. Source: RFC 8910, 2.3; RFC 8908.
    # captive_portal = "https://portal.example/api"
  }

  # A device that has a name, and perhaps a fixed address.
  host "nas" {
    # How DHCP knows it; several for a device with several cards.
    # MAC address; one or a list. Unsaid: none. Source: chaddr, RFC 2131.
    mac = "02:00:00:00:00:23"

    # How DHCP knows it if its MAC is no host's: text, with or without the type 0 before it on the
    # wire, or hex:... for bytes.
    # Text, 2 to 255 bytes. Unsaid: none. Source: option 61, RFC 2132, 9.14.
    # client_id = "hex:01020000000023"

    # How DHCPv6 knows it if its MAC is no host's.
    # Text, 6 to 400 bytes; one or a list. Unsaid: none. Source: RFC 8415, 11.
    # duid = "00:03:00:01:02:00:00:00:00:23"

    # Fixed addresses. ::23 is the lower half of an IPv6 address, in whatever /64 the LAN has; by
    # DHCPv6 a device has one lower half: the first that stands so, else that of the first whole
    # address.
    # Address; one or a list. Unsaid: from the pool.
    address = ["10.0.10.23", "::23"]

    # Its name in DNS.
    # Host name. Unsaid: the label. Source: RFC 1123.
    # name = "nas"

    # Further names, by BIND (dns): in the house's domain if there is no dot in them, else in a zone
    # that is served here.
    # Domain; one or a list. Unsaid: none. Source: CNAME, RFC 1035, 3.3.1.
    # alias = "files"
  }

  # The DHCPv6 server. Without pool and delegate it is stateless: devices make their addresses
  # themselves, and ask it for resolvers, domains and time (RFC 8415, 6.1). Lifetimes are those of
  # advertise.
  dhcp6 {
    # Whether there is one.
    # True or false. Unsaid: true where this block is, else false.
    enabled = false

    # Addresses for devices that have none of their own: lower halves, in each /64 that the LAN has,
    # so that a device keeps its own when the ISP's prefix changes; or addresses of one /64. []
    # serves known hosts only.
    # Range of IPv6 addresses; one or a list, [] is none. Unsaid: no addresses. Source: IA_NA, RFC
    # 8415, 6.2.
    # pool = "::1000-::1fff"

    # Routers in this LAN get prefixes of this length, out of what the lines are delegated and of
    # ula, and are routed to. What has another LAN's /64 in it is left out.
    # Number, 49 to 64 (bits). Unsaid: no prefixes. Source: IA_PD, RFC 8415, 6.3.
    # delegate = 60
  }

  # Later: untagged, isolated, network { }.
}

# A name for several places.
group "children" {
  # What it stands for. A group may hold groups, but not itself.
  # Place (wan.NAME, wan, lan.NAME, lan, host.NAME, group.NAME, self, an address or a network in
  # quotes); one or a list. Required.
  member = [host.nas, "10.0.10.64/26"]
}

# Lets connections through. allow, block and reject count together, in file order; the first that
# matches decides.
allow "guests-print" {
  # Who opens the connection. At least one of from and to is said.
  # Place (wan.NAME, wan, lan.NAME, lan, host.NAME, group.NAME, self, an address or a network in
  # quotes); one or a list. Unsaid: anywhere. Source: nft saddr, iif.
  # from = lan.home

  # Whom it is opened to.
  # Place (wan.NAME, wan, lan.NAME, lan, host.NAME, group.NAME, self, an address or a network in
  # quotes); one or a list. Unsaid: anywhere. Source: nft daddr, oif.
  to = host.nas

  # icmp is that of both families. Of what comes in by a WAN it is pings of the line's own address,
  # which the line answers itself: no rule against it is counted or logged.
  # "tcp", "udp", "icmp" or a number; one or a list. Unsaid: tcp with a port, else all. Source: IANA
  # protocol numbers.
  # protocol = "tcp"

  # The port at the far end.
  # Port, or a range in quotes; one or a list. Unsaid: all. Source: nft dport.
  # port = [22, "8000-8080"]

  # Whether the fast path may carry the connections that an allow lets through (gateway's
  # fast_path). Not where each packet is to pass main's rules, as where other programs mark, limit
  # or log it there. It counts for connections that begin from then on; what a rule refuses is never
  # carried.
  # True or false. Unsaid: true. Source: ct mark 0x10000.
  fast = true

  # Later: when, limit, log.
}

# Drops connections in silence. Its keys are those of allow.
block "no-mail" {
  # from = lan.home
  to = wan
  # protocol = "tcp"
  # port = [22, "8000-8080"]
  fast = true
}

# Refuses connections politely (TCP reset, ICMP). Its keys are those of allow.
reject "no-ssh" {
  # from = lan.home
  to = self
  # protocol = "tcp"
  # port = [22, "8000-8080"]
  fast = true
}

# Opens a port of the house to the outside.
forward "web" {
  # tcp, udp or both.
  # "tcp" or "udp"; one or a list. Unsaid: tcp. Source: nft dnat.
  protocol = "tcp"

  # Where it is asked for outside. No other forward has it on that WAN.
  # Port, or a range in quotes; one or a list. Required. Source: nft dport.
  port = [80, 443]

  # A host with a fixed address, or up to one address of each family.
  # Place (host.NAME, an address or a network in quotes); one or a list. Required. Source: nft dnat
  # to.
  to = host.nas

  # Where it goes inside; as many as port, ranges as wide.
  # Port, or a range in quotes; one or a list. Unsaid: the same. Source: nft dnat to.
  # to_port = [8080, 8443]

  # Who may: addresses, networks, groups of them. It counts for hairpin too: a LAN that it doesn't
  # cover is refused.
  # Place (group.NAME, an address or a network in quotes); one or a list. Unsaid: anywhere. Source:
  # nft saddr.
  # from = "198.51.100.0/24"

  # By which lines.
  # Name: wan.NAME, wan; one or a list. Unsaid: every WAN, used or in reserve. Source: nft iif.
  # on = wan.fiber

  # Whether the house itself reaches it by the outside address too. By IPv4 it can't where the ISP's
  # network is the LAN's own: clients look for that address among themselves.
  # True or false. Unsaid: true. Source: RFC 4787, REQ-9.
  hairpin = true
}

# By which lines connections leave the house. The first route that matches decides, in file order;
# what none matches leaves as failover says. It counts for connections that begin from then on: a
# running one stays where it is.
route "calls" {
  # Who opens the connection. A host is also known by its MAC, whatever address it uses. The
  # gateway's own questions to resolvers are self's.
  # Place (lan.NAME, lan, host.NAME, group.NAME, self, an address or a network in quotes); one or a
  # list. Unsaid: anywhere. Source: nft saddr, iif, ether saddr.
  # from = lan.home

  # Whom it is opened to: addresses and networks outside; wan is all of them.
  # Place (wan.NAME, wan, group.NAME, an address or a network in quotes); one or a list. Unsaid:
  # anywhere outside. Source: nft daddr.
  # to = "203.0.113.0/24"

  # icmp is that of both families.
  # "tcp", "udp", "icmp" or a number; one or a list. Unsaid: tcp with a port, else all. Source: IANA
  # protocol numbers.
  # protocol = "tcp"

  # The port at the far end.
  # Port, or a range in quotes; one or a list. Unsaid: all. Source: nft dport.
  # port = [5060, "10000-20000"]

  # The first of these that works; one that has come back only after its hold-down, where another
  # works. If none does, the others as failover says. One of prefer, only and never is said.
  # Name: wan.NAME, wan; one or a list. Unsaid: only or never says it. Source: ip-rule(8) fwmark.
  prefer = wan.fiber

  # A kill-switch: the first of these that works, or the connection is refused. In a family that
  # none of them has it is refused, too.
  # Name: wan.NAME, wan; one or a list. Unsaid: prefer or never says it. Source: ip-rule(8) fwmark.
  # only = wan.fiber

  # The line that failover says, or the next one of its prefer, but none of these; if no other
  # works, the connection is refused.
  # Name: wan.NAME, wan; one or a list. Unsaid: prefer or only says it. Source: ip-rule(8) fwmark.
  # never = wan.fiber

  # Later: share.
}

# The resolver for the house.
dns {
  # Who answers. forward is weir itself: local names from here, all others from upstream. bind is
  # BIND 9, run by weir: it also asks from the root on, validates DNSSEC, and has zones of its own
  # that others can update. auto is bind where it is installed (Debian: bind9) and no upstream is
  # tls://, and wherever the file has what only BIND can do: zone, key, alias. Without BIND forward
  # answers; weir says so where the file needs it.
  # "auto" or "forward" or "bind". Unsaid: auto.
  engine = "auto"

  # Resolvers that are asked; tls://ADDRESS#NAME is asked encrypted, and has to prove that name (not
  # with bind). wan.NAME is that line's own resolver, whatever the ISP says it is now, asked over
  # that line; wan is that of the line in use. With bind an ISP's resolver that does not pass
  # signatures on needs validate = false.
  # Resolver in quotes, or a line's own: wan.NAME, wan; one or a list. Unsaid: forward: wan; bind:
  # none, from the root on. Source: RFC 1035; RFC 7858 for tls://.
  # upstream = ["9.9.9.9", "2620:fe::fe"]

  # With bind: answers whose DNSSEC signatures are wrong are withheld. The root's keys are built in
  # and followed (RFC 5011); a file root-anchors with DS records in the state directory takes their
  # place.
  # True or false. Unsaid: true. Source: RFC 4035.
  validate = true

  # Who may ask; whoever else does is refused. The gateway itself always may. Networks of the public
  # internet are not taken, but a LAN's own.
  # Network; one or a list. Unsaid: the LANs' networks, and link-local addresses. Source:
  # allow-query.
  # client = ["10.0.10.0/24", "10.8.0.0/24"]

  # Domains whose names may point into the house. What else the internet says of addresses in here
  # is withheld, so that no web page reaches the house's devices by a name of its own (DNS
  # rebinding): private, link-local, loopback and shared (100.64.0.0/10) addresses, and IPv6 ones
  # that hold such. What counts is the name that has the address; with engine = "forward" also the
  # one that was asked for, which may be an alias. Zones that are forwarded are believed unsaid.
  # Domain; one or a list. Unsaid: none. Source: rebinding protection, as unbound's private-domain.
  # private_domain = "plex.direct"

  # The questions of the house can be looked at: weir log --dns. The last 1,000 are kept, in memory
  # alone.
  # True or false. Unsaid: false.
  log = false

  # A zone that is served here, or forwarded, by BIND. The house's domain and the LANs' reverse
  # zones are there unsaid; naming them adds to them.
  zone "home.arpa" {
    # Who is asked for what is in this zone, and believed: addresses, or a line's own resolver as in
    # upstream (wan.fiber, for names that only this ISP knows). Nothing else stands beside it.
    # Resolver in quotes, or a line's own: wan.NAME, wan; one or a list. Unsaid: served here.
    # Source: type forward.
    # forward = "10.9.0.1"

    # How long its records may be remembered.
    # Time, 1s to 7d. Unsaid: 1h. Source: RFC 1035, $TTL.
    ttl = "1h"

    # The times in its start of authority, for secondaries.
    soa {
      # How often they look.
      # Time, 1s to 30d. Unsaid: 1h. Source: RFC 1035, 3.3.13.
      refresh = "1h"

      # How soon again if that failed.
      # Time, 1s to 30d. Unsaid: 10m. Source: RFC 1035, 3.3.13.
      retry = "10m"

      # How long they answer without us.
      # Time, 1s to 365d. Unsaid: 7d. Source: RFC 1035, 3.3.13.
      expire = "7d"

      # How long it may be remembered that a name is not there.
      # Time, 0s to 1d. Unsaid: 1m. Source: RFC 2308, 4.
      minimum = "1m"
    }

    # Records of a name in the zone; @ is the zone itself, *.NAME whatever is below a name and not
    # there. Names in the data are relative to the zone unless they end in a dot.
    record "printer" {
      # Its addresses, or a host that has some.
      # Place (host.NAME, an address or a network in quotes); one or a list. Unsaid: none. Source:
      # A, AAAA and PTR.
      address = "10.0.10.9"

      # The name that it stands for; then nothing is beside it.
      # Text, 1 to 253 bytes. Unsaid: none. Source: RFC 1035, 3.3.1.
      # cname = "nas"

      # Who serves what is below it.
      # Text, 1 to 253 bytes; one or a list. Unsaid: none; of the zone itself the gateway. Source:
      # RFC 1035, 3.3.11.
      # ns = "ns.branch"

      # Text.
      # Text, 1 to 4000 bytes; one or a list. Unsaid: none. Source: RFC 1035, 3.3.14.
      # txt = "v=spf1 -all"

      # Preference and name of a mail server.
      # Text, 1 to 260 bytes; one or a list. Unsaid: none. Source: RFC 1035, 3.3.9.
      # mx = "10 mail"

      # Priority, weight, port and name of a server.
      # Text, 1 to 275 bytes; one or a list. Unsaid: none. Source: RFC 2782.
      # srv = "0 5 5060 sip"

      # Flags, tag and value: who may issue certificates.
      # Text, 1 to 1000 bytes; one or a list. Unsaid: none. Source: RFC 8659.
      # caa = "0 issue ca.example"

      # How long they may be remembered.
      # Time, 1s to 7d. Unsaid: the zone's. Source: RFC 1035.
      # ttl = "5m"
    }
  }

  # Who else may update zones, by TSIG (RFC 2136, RFC 8945). Its secret is made once and kept in the
  # state directory, as named/NAME.key: for nsupdate -k; or it is that of a file.
  key "acme" {
    # The last two are for old programs.
    # "hmac-sha256" or "hmac-sha512" or "hmac-sha1" or "hmac-md5". Unsaid: hmac-sha256. Source: RFC
    # 8945, 6.
    algorithm = "hmac-sha256"

    # What it may update: zones that are served here.
    # Domain; one or a list. Required. Source: update-policy.
    zone = "home.arpa"

    # Names in these zones, relative to them; @ is the zone itself, *.NAME all below a name.
    # Text, 1 to 253 bytes; one or a list. Unsaid: all names but those that the gateway and the file
    # have.
    # name = "_acme-challenge"

    # Types of records.
    # Text, 1 to 10 bytes; one or a list. Unsaid: all. Source: IANA's record types.
    # type = "TXT"

    # A secret that somebody has already: a file of tsig-keygen, for this name and algorithm, or the
    # bare secret in base64. A path that does not begin with / begins at the folder of this file.
    # Its mode is 0600. It is read when this file is put in force. A rehearsal has another secret in
    # its place.
    # File. Unsaid: made once, as named/NAME.key in the state directory. Source: RFC 8945;
    # tsig-keygen(8).
    # secret_file = "/etc/weir/acme.key"
  }

  # Names that are not resolved: whoever asks is told that there is no such name (NXDOMAIN; from
  # weir's own resolver with EDE 15, Blocked). Names of the house are never blocked.
  block_list "ads" {
    # Where they come from: URLs, and files by their whole path, which are looked at every ten
    # seconds. A line is ADDRESS NAME as in hosts, a name, *.NAME with all below it, ||NAME^
    # likewise, @@||NAME^ for what is let through, or NAME CNAME . as in a response policy zone. At
    # most 64 MB and two million names.
    # Text, 1 to 2000 bytes; one or a list. Required. Source: hosts(5), names, Adblock Plus, RPZ.
    source = "https://lists.example.org/hosts"

    # How often URLs are asked for something newer; a little sooner, so that not all houses ask at
    # once. What was had last stays in the state directory and in force until there is something
    # better.
    # Time, 1h to 30d. Unsaid: 1d. Source: RFC 9110, 13.
    refresh = "1d"

    # Domains that this list does not block, with all below them.
    # Domain; one or a list. Unsaid: none. Source: rpz-passthru.
    # allow = "cdn.example.com"

    # Whose questions it is for. The gateway's own are never blocked.
    # Name: lan.NAME, lan; one or a list. Unsaid: every LAN.
    # lan = lan.home
  }
}

# The time, by chrony, which weir runs. Without it (Debian: chrony) on the machine weir says so, and
# keeps no time.
time {
  # Who is asked: addresses, names, or nts://NAME for a server that proves by a certificate who it
  # is. Names are looked up once a day, and what was found is kept for the next start, so that time
  # needs no names. Of three or more servers one that is wrong moves nothing.
  # Time server; one or a list. Unsaid: time.cloudflare.com, ntp.se and any.time.nl, by addresses
  # that are built in. Source: RFC 5905; RFC 8915 for nts://.
  # server = ["nts://time.cloudflare.com", "nts://nts.netnod.se", "ntp.example.org"]

  # The LANs can have the time from the gateway, and DHCP tells them so. Nobody on a WAN can.
  # True or false. Unsaid: true. Source: option 42.
  serve = true
}

# The local socket that the weir command talks to.
api {
  # Who may use it, beside root.
  # Text, 1 to 32 bytes. Unsaid: weir, where it exists and can be given. Source: group(5); the
  # socket's mode is 0660.
  group = "weir"
}

# Later: tunnel { }, tuning { }, metrics { }, web { }.
