package ruleset_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"sync"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/ruleset"
)

// signs are what a round leaves beside answers: which counters moved, and what
// was logged ("weir closed, IPv4").
type signs map[string]bool

// signs compares a round's signs with those of the first one.
func (w *world) signs(before, after map[string]int, logged signs) map[string]string {
	now, wrong := signs{}, map[string]string{}
	for name, n := range after {
		if n > before[name] {
			now["counter "+name] = true
		} else if w.first == nil {
			wrong["counter "+name] = "nothing was counted: a row is missing"
		}
	}
	for what := range logged {
		now["log "+what] = true
	}
	if w.first == nil {
		w.first = now
	}
	for what := range w.first {
		if !now[what] {
			wrong[what] = "came in the first round and not in this one"
		}
	}
	if now["log talk to everyone"] {
		wrong["talk to everyone"] = "was logged"
	}
	return wrong
}

// counters are the packets of each named counter of main.
func (w *world) counters() (map[string]int, error) {
	var out []byte
	err := netns.Do("", func() (err error) {
		out, err = exec.Command("nft", "-j", "list", "counters", "table", "inet", ruleset.TableName).Output()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list counters: %w", err)
	}
	var list struct {
		Nftables []struct {
			Counter *struct {
				Name    string
				Packets int
			}
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, o := range list.Nftables {
		if o.Counter != nil {
			found[o.Counter.Name] = o.Counter.Packets
		}
	}
	return found, nil
}

// nflog listens to the log group of main.
type nflog struct {
	mu   sync.Mutex
	seen signs
}

func (l *nflog) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = signs{}
}

func (l *nflog) stop() signs {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Of linux/netfilter/nfnetlink_log.h.
const (
	nfULOG        = 4 // NFNL_SUBSYS_ULOG
	ulogConfig    = 1 // NFULNL_MSG_CONFIG
	ulogCmd       = 1 // NFULA_CFG_CMD
	ulogMode      = 2 // NFULA_CFG_MODE
	ulogBind      = 1 // NFULNL_CFG_CMD_BIND
	ulogThreshold = 5 // NFULA_CFG_QTHRESH
	ulogCopy      = 2 // NFULNL_COPY_PACKET
	ulogPayload   = 9 // NFULA_PAYLOAD
	ulogPrefix    = 10
	netlinkFilter = 12 // NETLINK_NETFILTER
)

func openLog(tb testing.TB) *nflog {
	tb.Helper()
	var c *netlink.Conn
	err := netns.Do("", func() (err error) {
		c, err = netlink.Dial(netlinkFilter, nil)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	_ = c.SetReadBuffer(4 << 20) // a busy machine reads late
	for _, a := range []netlink.Attribute{
		{Type: ulogCmd, Data: []byte{ulogBind}},
		{Type: ulogMode, Data: []byte{0, 0, 0, 64, ulogCopy, 0}},
		{Type: ulogThreshold, Data: []byte{0, 0, 0, 1}}, // don't gather
	} {
		attrs, err := netlink.MarshalAttributes([]netlink.Attribute{a})
		if err != nil {
			tb.Fatal(err)
		}
		head := binary.BigEndian.AppendUint16([]byte{0, 0}, ruleset.LogGroup)
		if _, err := c.Execute(netlink.Message{
			Header: netlink.Header{Type: nfULOG<<8 | ulogConfig, Flags: netlink.Request | netlink.Acknowledge},
			Data:   append(head, attrs...),
		}); err != nil {
			tb.Fatal("bind the log group:", err)
		}
	}
	l := &nflog{seen: signs{}}
	go func() {
		for {
			ms, err := c.Receive()
			if errors.Is(err, unix.ENOBUFS) {
				continue // more than there was room for: some are lost
			}
			if err != nil {
				return
			}
			for _, m := range ms {
				l.message(m.Data)
			}
		}
	}()
	return l
}

func (l *nflog) message(b []byte) {
	if len(b) < 4 {
		return
	}
	attrs, err := netlink.UnmarshalAttributes(b[4:])
	if err != nil {
		return
	}
	var prefix, fam string
	everyone := false
	for _, a := range attrs {
		switch a.Type {
		case ulogPrefix:
			prefix = string(a.Data[:max(0, len(a.Data)-1)])
		case ulogPayload:
			var dst netip.Addr
			switch {
			case len(a.Data) >= 20 && a.Data[0]>>4 == 4:
				fam = "IPv4"
				dst, _ = netip.AddrFromSlice(a.Data[16:20])
			case len(a.Data) >= 40:
				fam = "IPv6"
				dst, _ = netip.AddrFromSlice(a.Data[24:40])
			}
			everyone = dst.IsMulticast()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[prefix+", "+fam] = true
	if everyone {
		l.seen["talk to everyone"] = true
	}
}
