package rehearse

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/config"
)

// leaseWordsActs plug in what a LAN's dhcp block has words for: a device of each of its
// classes, and a relay of each network behind one.
func leaseWordsActs(s *Site, l *LAN) (acts []Act) {
	if l.DHCP.Known && len(l.DHCP.Classes) > 0 {
		s.omit(true, "classes of dhcp of lan "+l.Name, "devices that the file does not know are not answered there, and the lab's are such")
	} else {
		for _, k := range l.DHCP.Classes {
			drill := name("lease", l.Name, "class-"+k.Name)
			acts = append(acts, Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
				return []Result{b.classLease(ctx, l, k, drill)}
			}})
		}
	}
	for _, n := range l.DHCP.Subnets {
		if l.DHCP.Known || len(n.Pool) == 0 {
			s.omit(true, "subnet "+n.Name+" of lan "+l.Name, "devices that the file does not know are not answered there, and the lab's are such")
			continue
		}
		drill := name("lease", l.Name, "subnet-"+n.Name)
		acts = append(acts, Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
			return []Result{b.subnetLease(ctx, l, n, drill)}
		}})
	}
	return acts
}

// classLease tells whether a device of a class is told what the class has to load, and
// its options.
func (b *Bench) classLease(ctx context.Context, l *LAN, k config.Class, drill string) Result {
	const about = "a device of the class is told what is its own"
	c, err := b.device(l)
	if err != nil {
		return fail(drill, about, "a device on the LAN", err.Error(), "the lab")
	}
	var says []dhcpv4.Modifier
	if len(k.Vendor) > 0 {
		says = append(says, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(k.Vendor[0])))
	}
	if len(k.User) > 0 {
		says = append(says, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte(k.User[0]))))
	}
	if len(k.Arch) > 0 {
		says = append(says, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{byte(k.Arch[0] >> 8), byte(k.Arch[0])})))
	}
	for _, o := range k.Options {
		says = append(says, dhcpv4.WithRequestedOptions(dhcpv4.GenericOptionCode(o.Code)))
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.joins())
	defer cancel()
	ack, err := c.Lease(ctx, says...)
	look := fmt.Sprintf("class %s in dhcp of lan %s; weir's log: %s", k.Name, l.Name, b.Daemon.Log(3))
	if err != nil {
		return fail(drill, about, "a lease", err.Error(), look)
	}
	var wrong []string
	if k.Boot.Server.IsValid() && ack.ServerIPAddr.String() != k.Boot.Server.String() {
		wrong = append(wrong, fmt.Sprintf("next_server %s, not %s", ack.ServerIPAddr, k.Boot.Server))
	}
	if k.Boot.File != "" && ack.BootFileName != k.Boot.File {
		wrong = append(wrong, fmt.Sprintf("boot_file %q, not %q", ack.BootFileName, k.Boot.File))
	}
	for _, o := range k.Options {
		if got := ack.Options.Get(dhcpv4.GenericOptionCode(o.Code)); !bytes.Equal(got, o.Data) {
			wrong = append(wrong, fmt.Sprintf("option %d %x, not %x", o.Code, got, o.Data))
		}
	}
	if wrong != nil {
		return fail(drill, about, "what the class says", strings.Join(wrong, "; "), look)
	}
	return pass(drill, about, secs("took", time.Since(start)))
}

// subnetLease tells whether a device behind a relay gets an address of the network
// there, and its router.
func (b *Bench) subnetLease(ctx context.Context, l *LAN, n config.Subnet, drill string) Result {
	const about = "a device behind a relay gets an address of the network there"
	c, err := b.device(l)
	if err != nil {
		return fail(drill, about, "a device on the LAN", err.Error(), "the lab")
	}
	relay := n.Router
	if !relay.IsValid() { // the relay is: at the first address that nobody is given
		relay = n.Prefix.Masked().Addr().Next()
		for in(n.Pool, relay) {
			relay = relay.Next()
		}
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.joins())
	defer cancel()
	ack, err := c.LeaseBehind(ctx, l.Address4, relay)
	look := fmt.Sprintf("subnet %s in dhcp of lan %s; weir's log: %s", n.Name, l.Name, b.Daemon.Log(3))
	if err != nil {
		return fail(drill, about, "a lease", err.Error(), look)
	}
	a, _ := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !in(n.Pool, a) {
		return fail(drill, about, "an address of its pool", a.String(), look)
	}
	said := slices.ContainsFunc(n.Options, func(o config.Option) bool { return o.Code == 3 })
	if r := ack.Router(); !said && (len(r) != 1 || r[0].String() != relay.String()) {
		return fail(drill, about, "router "+relay.String(), fmt.Sprintf("router %v", r), look)
	}
	return pass(drill, about, secs("took", time.Since(start)))
}

// in says whether an address is in a pool.
func in(pool []config.Range, a netip.Addr) bool {
	return slices.ContainsFunc(pool, func(r config.Range) bool { return r.From.Compare(a) <= 0 && a.Compare(r.To) <= 0 })
}
