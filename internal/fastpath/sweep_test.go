package fastpath_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// processor is how long this process has had one.
func processor() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkKeeper takes flows and looks after them: what it takes until one is carried, and
// how much of a processor a sweep costs, of which there is one each two to six seconds.
func BenchmarkKeeper(b *testing.B) {
	netnstest.Need(b)
	l := newLab(b, true)
	ports := l.ports()
	links := linksOf(ports)
	for _, flows := range []int{1000, 50000} {
		b.Run(fmt.Sprint(flows), func(b *testing.B) {
			l.TB = b
			var f *fastpath.Flows
			l.must(netns.Do("", func() (err error) {
				if err = fastpath.PutFlows(links, links); err == nil {
					f, err = fastpath.Open(links)
				}
				return err
			}))
			k, err := fastpath.NewKeeper(f, slog.New(slog.DiscardHandler))
			l.must(err)
			defer k.Close()
			l.must(k.Resume(ports))
			var ct *conntrack.Conn
			l.must(netns.Do("", func() (err error) { ct, err = conntrack.Dial(nil); return err }))
			defer ct.Close()
			ends := func(i int) (host, peer netip.AddrPort) {
				return netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 31, 0, byte(50 + i%100)}), uint16(10000+i/100)),
					netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(1 + i%200)}), 443)
			}
			for i := range flows {
				host, peer := ends(i)
				c := conntrack.NewFlow(unix.IPPROTO_UDP, conntrack.StatusSeenReply|conntrack.StatusAssured|conntrack.StatusConfirmed, host.Addr(), peer.Addr(), host.Port(), peer.Port(), 3600, 1)
				c.TupleReply.IP.DestinationAddress = netip.MustParseAddr(own)
				c.TupleReply.Proto.DestinationPort = uint16(1024 + i)
				l.must(ct.Create(c))
			}
			begin := time.Now()
			for i := range flows {
				host, peer := ends(i)
				why, err := k.Learn(ports[0].Index, fastpath.Tuple{Src: host, Dst: peer, Protocol: unix.IPPROTO_UDP})
				l.must(err)
				if why != "" {
					b.Fatalf("flow %d is not carried: %s", i, why)
				}
			}
			learnt := time.Since(begin)
			worked := processor()
			for b.Loop() {
				k.Age(2 * time.Second)
				l.must(k.Sweep())
			}
			worked = processor() - worked
			n := 0
			for _, err := range f.All() {
				l.must(err)
				n++
			}
			if n != 2*flows {
				b.Fatalf("%d entries are left, want %d", n, 2*flows)
			}
			b.ReportMetric(float64(learnt.Nanoseconds())/float64(flows)/1000, "us/flow")
			b.ReportMetric(float64(worked.Microseconds())/1000/float64(b.N), "cpu-ms/sweep")
			l.must(ct.Flush())
		})
	}
}
