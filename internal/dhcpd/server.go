package dhcpd

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"runtime"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/commit"
	"weir/internal/ether"
	"weir/internal/state"
	"weir/internal/worker"
)

// Worker is the server of all LANs. It takes Order and sends Report.
var Worker = worker.Kind{Name: "dhcpd", Run: Run}

// maxLogged is how many events are logged in logEvery: who floods the server
// does not flood the log.
const (
	maxLogged = 100
	logEvery  = 10 * time.Second
)

// statusEvery is how often a changed Status is told.
const statusEvery = 2 * time.Second

// server is a running Worker.
type server struct {
	parent *worker.Conn
	log    *slog.Logger
	engine *Engine
	ports  worker.Ports[*port]
	frames chan []frame // of one LAN, in their order

	keeping *commit.Queue[Reply] // replies that wait for their leases to be on disk

	logged     int // events in this logEvery
	suppressed int
	logFrom    time.Time

	status []Status
	tell   time.Time // not before
}

// Run is the worker's life: see worker.Kind.
func Run(ctx context.Context, parent *worker.Conn, log *slog.Logger) error {
	clock, err := state.ReadClock()
	if err != nil {
		return err
	}
	// One processor is enough for it, and a second thread costs more than it does.
	runtime.GOMAXPROCS(1)
	s := &server{
		parent: parent, log: log, engine: New(time.Now(), clock), keeping: commit.New[Reply](),
		ports: worker.Ports[*port]{}, frames: make(chan []frame, 1),
	}
	return worker.Obey(ctx, parent, s.loop)
}

func (s *server) loop(ctx context.Context, orders <-chan worker.Order[Order]) error {
	defer s.ports.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-orders:
			if err := s.obey(ctx, o); err != nil {
				return err
			}
		case frames := <-s.frames:
			for _, f := range frames {
				now := time.Now()
				if f.arp != nil {
					s.do(ctx, now, s.engine.ARP(now, f.lan, *f.arp))
				} else {
					s.do(ctx, now, s.engine.Handle(now, f.lan, f.packet, f.from, f.ucast))
				}
			}
		case <-timer.C:
			now := time.Now()
			s.do(ctx, now, s.engine.Tick(now))
		}
		s.listen()
		now := time.Now()
		if err := s.report(now); err != nil {
			return err
		}
		timer.Reset(s.engine.Next().Sub(now))
	}
}

// obey takes a message of the parent.
func (s *server) obey(ctx context.Context, o worker.Order[Order]) error {
	switch v := o.Value; {
	case v.Config != nil:
		if err := s.engine.Configure(time.Now(), *v.Config); err != nil {
			closeAll(o.Files)
			return err
		}
		return s.take(ctx, *v.Config, o.Files)
	case v.Kept != nil:
		s.kept(ctx, *v.Kept)
		return nil
	default:
		s.engine.Load(time.Now(), v.Leases)
		return nil
	}
}

// do carries out what the engine wants.
func (s *server) do(ctx context.Context, now time.Time, out Out) {
	s.say(ctx, now, out.Events)
	if len(out.Probes) > 0 {
		s.listen() // before anybody answers
	}
	for _, q := range out.Probes {
		if p := s.ports[q.LAN]; p != nil {
			s.sent(ctx, q.LAN, "ARP probe", p.arp.WriteNow(ether.Probe(s.engine.scope(q.LAN).mac, q.Addr).Frame()))
		}
	}
	s.keeping.Add(out.Keep, nil)
	for _, r := range out.Replies {
		switch {
		case r.Keep == nil:
			s.send(ctx, r)
		case !s.keeping.Full(): // else it is as if it had not been asked
			s.keeping.Add([]state.Lease{*r.Keep}, &r)
		}
	}
}

// listen hears ARP on the LANs where answers to probes are waited for.
func (s *server) listen() {
	for lan, p := range s.ports {
		probing := s.engine.Probing(lan)
		if probing == p.probing {
			continue
		}
		filter := ether.Nothing()
		if probing {
			filter = ether.ARPReplies()
		}
		if err := p.arp.SetFilter(filter); err != nil {
			s.log.Warn("addresses are offered without a check", "lan", lan, "err", err)
		}
		p.probing = probing
	}
}

// say logs events.
func (s *server) say(ctx context.Context, now time.Time, events []Event) {
	if now.Sub(s.logFrom) >= logEvery {
		if s.suppressed > 0 {
			s.log.Warn("more happened at the DHCP server than is logged", "events", s.suppressed)
		}
		s.logFrom, s.logged, s.suppressed = now, 0, 0
	}
	for _, ev := range events {
		if !s.log.Enabled(ctx, ev.Level) {
			continue
		}
		if s.logged++; s.logged > maxLogged {
			s.suppressed++
			continue
		}
		attrs := []slog.Attr{slog.String("lan", ev.LAN)}
		if ev.MAC != "" {
			attrs = append(attrs, slog.String("mac", ev.MAC))
		}
		if ev.Addr.IsValid() {
			attrs = append(attrs, slog.String("addr", ev.Addr.String()))
		}
		if ev.Name != "" {
			attrs = append(attrs, slog.String("name", ev.Name))
		}
		s.log.LogAttrs(ctx, ev.Level, ev.Text, append(attrs, slog.String("why", ev.Why))...)
	}
}

// report tells the parent what there is to keep, and how the LANs are doing.
func (s *server) report(now time.Time) error {
	var r Report
	if !now.Before(s.tell) {
		s.tell = now.Add(statusEvery)
		if st := s.engine.Status(now); !reflect.DeepEqual(st, s.status) {
			s.status, r.LANs = st, st
		}
	}
	for r.ID, r.Keep = s.keeping.Next(); r.Keep != nil; r.ID, r.Keep = s.keeping.Next() {
		if err := s.parent.Send(r); err != nil {
			return err
		}
		r.LANs = nil
	}
	if r.LANs == nil {
		return nil
	}
	return s.parent.Send(r)
}

// kept answers the clients whose leases are on disk.
func (s *server) kept(ctx context.Context, k commit.Kept) {
	for _, b := range s.keeping.Done(k) {
		if k.Err == "" {
			s.engine.Kept(b.Lease)
		}
		if b.Reply != nil {
			s.send(ctx, *b.Reply)
		}
	}
}

func (s *server) send(ctx context.Context, r Reply) {
	p := s.ports[r.LAN]
	if p == nil {
		return // the LAN is not served any more
	}
	scope := s.engine.scope(r.LAN)
	u := ether.UDP{
		SrcMAC: scope.mac, DstMAC: r.MAC,
		Src:     netip.AddrPortFrom(scope.lan.Address.Addr(), dhcpv4.ServerPort),
		Dst:     r.Dst,
		Payload: r.Packet.ToBytes(),
	}
	s.sent(ctx, r.LAN, r.Packet.MessageType().String(), p.dhcp.WriteNow(u.Frame()))
}

// sent logs what could not be sent: whoever waits for it asks again.
func (s *server) sent(ctx context.Context, lan, what string, err error) {
	if err != nil {
		s.say(ctx, time.Now(), []Event{{Level: slog.LevelWarn, Text: "a message of the DHCP server was not sent", LAN: lan, Why: what + ": " + err.Error()}})
	}
}
