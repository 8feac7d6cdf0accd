package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/bare"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/dhcpd"
	"weir/internal/dhcpd6"
	"weir/internal/dns"
	"weir/internal/failover"
	"weir/internal/history"
	"weir/internal/kernel"
	"weir/internal/refused"
	"weir/internal/state"
	"weir/internal/tail"
)

// The pace of the loop.
const (
	carrierEvery = 50 * time.Millisecond // see architecture.md, section 2: netlink tells of a carrier once a second at most
	settleFor    = 20 * time.Millisecond // kernel events come in crowds: a turn waits for the crowd
	lookEvery    = 30 * time.Second      // the kernel tells nobody of a changed sysctl: it is looked at besides
	firstRetry   = time.Second           // a failed turn is tried again, then twice as late
	maxRetry     = 30 * time.Second
)

// daemon is a running gateway. Only the loop's goroutine touches it, but for the
// parts that say otherwise.
type daemon struct {
	o       Options
	log     *slog.Logger
	started time.Time
	k       *kernel.Kernel
	store   *state.Store
	items   chan []state.Item // to be stored; closed by close
	stored  chan struct{}     // closed when all of them are; nil: nobody stores

	solicited map[string]int // by WAN: the index of the port that routers were asked by

	cfg       *config.Config
	was       *config.Config // whose flows under way are still to be reviewed; nil: none are
	book      history.Book   // the last entry is cfg
	saved     history.Book   // as it is on disk
	unstored  unstored
	trialEnds time.Time // when it must be confirmed; zero: it is there to stay
	world     world
	notes     []string // of the start
	seen      []string // notes of the last turn's plan

	machine  *failover.Machine
	adopted  bool             // machine knows what the kernel had in force at the start
	nextTick time.Time        // when machine wants to be asked again; zero: no need
	probes   []failover.Probe // to be sent once the turn is done

	chosen    state.Choice // by a person; the zero Choice is none
	stirred   bool         // something may have changed what main does with packets of established flows
	uncarried error        // why the fast path does not carry those; nil: it does, or is not to
	uncounted bool         // the lines' counters could not be read the last time

	dirty time.Time // when a turn is wanted; zero: none
	retry time.Duration
	turns api.Turn
	ready bool // the first turn is done, and systemd knows
	asked bool // the machine's own resolver file was seen to, since the last turn
	ended bool // taken down

	leaving bool // it is being taken down: no service is told anything more

	names  string // the resolver file as it was written; "": it was not yet
	shares *bool  // it is that of programs outside; nil: not looked yet
	news   bool   // the status may be another one

	prober    *prober
	dhcp4     map[string]*dhcp4Client // by WAN
	dhcp6     map[string]*dhcp6Client // by WAN
	dhcpd     *lanServer[dhcpd.LAN]
	dhcpd6    *lanServer[dhcpd6.LAN]
	ra        *advertiser
	dns       *dnsServer   // names are answered by this one,
	named     *namedServer // or this one
	changing  bool         // from one of them to the other
	engine    engine       // which one it is to be
	time      *timeKeeper
	lists     *listKeeper               // of names that are not resolved; nil: the file has none
	reader    *service                  // of what the firewall refuses
	refused   *tail.Log[refused.Packet] // safe for any goroutine
	questions *tail.Log[dns.Asked]      // likewise
	leases    map[leaseKey]state.Lease  // the LANs' clients', the ended ones too
	lanStatus []dhcpd.Status
	nextEnd   time.Time // when the next of leases ends; zero: none does

	near      []kernel.Neighbour // devices of IPv6 on the LANs that answered once
	lookAgain time.Time          // when it is looked who they are

	namesAgain time.Time // syncDNS goes through a storm of leases not before

	built desired.Desired         // by the last turn
	far   map[string][]netip.Addr // the cables' far ends, by WAN

	otherClock string    // who else keeps the clock, as of the start; "": nobody
	timeStored time.Time // when the time was stored the last time, by this daemon

	advised map[string][]state.Told // delegated prefixes that a LAN's hosts may have; by LAN

	flows map[string]api.Flows   // what became of those that left a line; by WAN
	left  chan kernel.FlowsEnded // any goroutine may send

	posts chan func() // any goroutine may send

	watchdog *watchdog

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when the status is another one; guarded by mu
}

func newDaemon(o Options) *daemon {
	d := &daemon{
		o: o, log: o.Log, started: time.Now(),
		solicited: map[string]int{},
		leases:    map[leaseKey]state.Lease{},
		dhcp4:     map[string]*dhcp4Client{},
		dhcp6:     map[string]*dhcp6Client{},
		advised:   map[string][]state.Told{},
		refused:   tail.New[refused.Packet](refusedKept), questions: tail.New[dns.Asked](askedKept),
		flows:   map[string]api.Flows{},
		left:    make(chan kernel.FlowsEnded, 64),
		posts:   make(chan func(), 64),
		changed: make(chan struct{}),
		items:   make(chan []state.Item, 256),
	}
	d.watchdog = newWatchdog(os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID"), os.Getpid(), d.tell)
	d.otherClock = otherClock(os.DirFS("/"), d.timeDir())
	return d
}

// close writes what is still to be stored, and closes all there is.
func (d *daemon) close() error {
	var err error
	if d.stored != nil {
		close(d.items)
		<-d.stored
	}
	if d.k != nil {
		err = d.k.Close()
	}
	return errors.Join(err, d.store.Close())
}

// post has the loop run f, unless ctx ends before.
func (d *daemon) post(ctx context.Context, f func()) {
	select {
	case d.posts <- f:
	case <-ctx.Done():
	}
}

// postSoon is post for what is called on a goroutine that the loop may wait for.
func (d *daemon) postSoon(ctx context.Context, f func()) { go d.post(ctx, f) }

// call has the loop run f and waits for it.
func call[T any](ctx context.Context, d *daemon, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	d.post(ctx, func() {
		v, err := f()
		done <- result{v, err}
	})
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("weir is ending: %w", ctx.Err())
	}
}

// wantTurn asks for a turn within the given time.
func (d *daemon) wantTurn(within time.Duration) {
	if at := time.Now().Add(within); d.dirty.IsZero() || at.Before(d.dirty) {
		d.dirty = at
	}
}

// loop runs until ctx ends or the gateway is taken down.
func (d *daemon) loop(ctx context.Context) error {
	d.watchStore(ctx)
	d.storeAll()
	events, err := d.k.Watch(ctx)
	if err != nil {
		return err
	}
	if err := d.settleHouse(); err != nil {
		return err
	}
	d.stored = make(chan struct{})
	go d.storeItems()
	wake, err := bare.NewAlarm()
	if err != nil {
		return err
	}
	defer wake.Close()
	// The machine asks for probes at round times of its clock, which begins here:
	// so they are times at which carriers are polled.
	begin := time.Now()
	poll := begin
	d.machine = failover.New(failoverConfig(d.cfg), begin)
	d.machine.Use(begin, d.chosen.WAN)
	d.wantTurn(0)
	d.log.Info("weir starts", "version", d.o.Version, "gateway", d.cfg.Gateway.Name, "file", d.inForce().From)
	for !d.ended {
		if err := wake.Set(earlier(earlier(earlier(d.dirty, d.nextTick), earlier(d.nextEnd, earlier(earlier(d.trialEnds, d.unstored.again), d.world.nextWait()))), earlier(poll, d.lookAgain))); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			d.log.Info("weir ends; the kernel goes on forwarding")
			d.tell("STOPPING=1")
			return nil
		case e, ok := <-events:
			switch {
			case ok:
				d.kernelEvent(e)
			case ctx.Err() == nil:
				return errors.New("the kernel's events ended")
			default:
				events = nil // they end with ctx, and a turn may have lasted until both had
			}
		case f := <-d.posts:
			f()
			d.drain()
		case e := <-d.left:
			d.flowsEnded(time.Now(), e)
		case <-wake.C:
		}
		if now := time.Now(); !now.Before(poll) {
			d.pollCarrier()
			poll = begin.Add((now.Sub(begin)/carrierEvery + 1) * carrierEvery)
		}
		if d.ended {
			break // no turn that is wanted may build again what was taken apart
		}
		if now := time.Now(); !d.lookAgain.After(now) {
			d.lookAgain = now.Add(nearEvery)
			if d.lookNear() && d.ready {
				d.nextEnd = earlier(d.nextEnd, now)
			}
		}
		if !d.nextEnd.IsZero() && !d.nextEnd.After(time.Now()) {
			d.syncDNS(ctx)
		}
		if again := d.unstored.again; !again.IsZero() && !again.After(time.Now()) {
			d.storeAll()
		}
		if !d.trialEnds.IsZero() {
			d.drain() // who confirmed before the end is heard, however busy the loop was
			d.judgeTrial(time.Now())
		}
		d.judge(time.Now())
		if !d.dirty.IsZero() && !d.dirty.After(time.Now()) {
			d.dirty = time.Time{}
			if err := d.turn(ctx); err != nil {
				return err
			}
			if !d.leaving {
				d.sync(ctx)
			}
			d.storeAll() // how the machine was found
			d.asked = false
			d.news = true
		}
		d.sendProbes()
		d.takeNames()
		d.watchdog.progress(time.Now())
		if d.news {
			d.announce()
			d.news = false
		}
	}
	d.tell("STOPPING=1")
	return nil
}

// earlier is the earlier of two times, of which the zero ones don't count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// drain runs what else was posted, so that one turn takes in all of it.
func (d *daemon) drain() {
	for {
		select {
		case f := <-d.posts:
			f()
		default:
			return
		}
	}
}

// kernelEvent takes in that something in the kernel changed. What a failing turn
// stirs up itself does not hasten the next.
func (d *daemon) kernelEvent(e kernel.Event) {
	if e.Kind == kernel.ResolverEvent {
		name := strings.TrimPrefix(e.NS, desired.NSPrefix)
		k, ok := d.world.wans[name]
		if e.NS == "" || !ok || k.port.index != e.Resolvers.Index {
			return // of a LAN, or of a port that is being put in its place: that is asked again
		}
		now, news := k.advertised6(e.Resolvers, time.Now())
		d.world.wans[name] = now
		if !news {
			return
		}
		d.log.Info("the ISP's router advertises resolvers", "wan", name, "dns", e.Resolvers.DNS, "for", e.Resolvers.Lifetime)
	}
	d.stirred = d.stirred || stirs(e)
	if d.retry == 0 {
		d.wantTurn(settleFor)
	}
}

// solicit asks the ISPs' routers to advertise themselves once for each port that has heard
// one: what they said before weir was there to hear it nobody keeps.
func (d *daemon) solicit() {
	for name, k := range d.world.wans {
		if !k.heard || k.port.index == 0 || d.solicited[name] == k.port.index {
			continue
		}
		d.solicited[name] = k.port.index
		if err := kernel.Solicit(desired.NSPrefix+name, k.port.index); err != nil {
			d.log.Warn("an ISP's resolvers may be known only later", "wan", name, "err", err)
		}
	}
}

// settleHouse gives the house what d.cfg needs and it lacks, and stores it.
func (d *daemon) settleHouse() error {
	h, err := settle(d.world.house, d.cfg, rand.Reader)
	if err != nil {
		return err
	}
	if err := d.store.Put(h.since(d.world.house)...); err != nil {
		d.unkept("how the WANs are numbered", err)
	}
	d.world.house = h
	return nil
}

// storeItems stores what the loop wants stored, in order: the disk may be slow,
// and no turn waits for it.
func (d *daemon) storeItems() {
	defer close(d.stored)
	for items := range d.items {
		if err := d.store.Put(items...); err != nil && !errors.Is(err, state.ErrHeld) { // that it is held, storeAll tells
			d.log.Error("the state is not stored, and would not survive a power cut", "err", err)
		}
	}
}

// tell tells the service manager, if there is one.
func (d *daemon) tell(lines ...string) {
	if err := notify(os.Getenv("NOTIFY_SOCKET"), lines...); err != nil {
		d.log.Warn("the service manager was not told", "err", err)
	}
}
