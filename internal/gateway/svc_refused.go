package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"weir/internal/api"
	"weir/internal/refused"
	"weir/internal/ruleset"
	"weir/internal/tail"
	"weir/internal/worker"
)

// refusedKept is how many refusals `weir log` can look back.
const refusedKept = 1000

// syncRefused has a reader of what the firewall refuses. Its socket is opened
// anew for each child: only one at a time may have the group.
func (d *daemon) syncRefused(ctx context.Context) {
	if d.reader != nil {
		return
	}
	sent := false
	d.reader = d.serve(ctx, duty{
		kind: refused.Worker,
		prepare: func(_ context.Context, fresh bool) (told, error) {
			if sent && !fresh {
				return told{}, nil
			}
			f, err := refused.Open(ruleset.LogGroup)
			if err != nil {
				return told{}, err
			}
			sent = true
			return told{msg: refused.Config{Prefix: ruleset.LogPrefix}, files: []*os.File{f}}, nil
		},
		take: func(_ *worker.Child, m worker.Message) (func(), error) {
			var r refused.Report
			if err := m.Decode(&r); err != nil {
				return nil, err
			}
			d.refused.Add(r.Packets, r.Lost) // no business of the loop's
			return nil, nil
		},
	})
}

// Refused tells what was refused, and with follow what is refused from now on.
func (d *daemon) Refused(ctx context.Context, follow bool, each func(api.Refused) error) error {
	names, err := call(ctx, d, func() (map[int]string, error) { return d.world.names, nil })
	if err != nil {
		return err
	}
	return tellTail(ctx, d.refused, follow, func(p refused.Packet) error { return each(refusedOf(p, names)) })
}

// tellTail calls each with what is kept and, with follow, with what comes.
func tellTail[T any](ctx context.Context, l *tail.Log[T], follow bool, each func(T) error) error {
	last, next, end := l.Follow()
	defer end()
	for _, v := range last {
		if err := each(v); err != nil {
			return err
		}
	}
	for follow {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case v := <-next:
			if err := each(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusedOf is p as the API tells it; names are main's links by index.
func refusedOf(p refused.Packet, names map[int]string) api.Refused {
	end := func(a netip.Addr, port uint16) string {
		if !a.IsValid() {
			return "?"
		}
		if !p.HasUpper || p.Protocol == protoICMP || p.Protocol == protoICMPv6 {
			return a.String()
		}
		return netip.AddrPortFrom(a, port).String()
	}
	link := func(i int) string {
		if n := names[i]; n != "" || i == 0 {
			return n
		}
		return fmt.Sprintf("link %d", i) // gone, or from after the last look
	}
	return api.Refused{
		At: p.At, Rule: p.Rule, In: link(p.InIndex), Out: link(p.OutIndex),
		From: end(p.Src, p.SrcPort), To: end(p.Dst, p.DstPort), Protocol: protocolName(p),
	}
}

// Protocol numbers of IANA that the file has no word for.
const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
)

func protocolName(p refused.Packet) string {
	name := protocolText(p.Protocol)
	if (p.Protocol == protoICMP || p.Protocol == protoICMPv6) && p.HasUpper {
		name += fmt.Sprintf(" %d", p.Type)
	}
	return name
}

// protocolText is what a protocol is called, or its number.
func protocolText(n uint8) string {
	switch n {
	case protoTCP:
		return "tcp"
	case protoUDP:
		return "udp"
	case protoICMP:
		return "icmp"
	case protoICMPv6:
		return "icmpv6"
	}
	return fmt.Sprint(n)
}
