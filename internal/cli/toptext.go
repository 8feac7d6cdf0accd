package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
)

// topView is how a report is shown: how it is sorted, and how much room there is; 0 is
// all that it needs. keys says that keys are heard.
type topView struct {
	sort          string
	width, height int
	keys          bool
}

// topText is a report as a person reads it.
func topText(t api.Traffic, v topView) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, of %.3g s, by %s: %d hosts, %d flows", t.At.Local().Format(time.TimeOnly), t.IntervalS, cmp.Or(v.sort, api.TrafficSorts[0]), t.HostCount, t.FlowCount)
	if t.Uncounted > 0 {
		fmt.Fprintf(&b, " (%d from before they were counted)", t.Uncounted)
	}
	if v.keys {
		b.WriteString("; q ends, r d u p t sort by rate, down, up, packets, total")
	}
	b.WriteString("\n\n")
	topLines(&b, t.WANs, t.Main)

	hosts, flows := t.Hosts, t.Flows
	if v.height > 0 {
		room := v.height - bytes.Count(b.Bytes(), []byte("\n")) - 4 // headings and what stands between
		most := max(room-min(len(flows), (room+1)/2), 0)
		hosts = hosts[:min(len(hosts), most)]
		flows = flows[:min(len(flows), max(room-len(hosts), 0))]
	}
	b.WriteByte('\n')
	topHosts(&b, hosts)
	b.WriteByte('\n')
	topFlows(&b, flows)
	return cutTo(b.String(), v.width)
}

// topSlow are words for why packets are slow.
var topSlow = map[string]string{
	api.SlowFirst: "first of TCP", api.SlowProtocol: "neither TCP nor UDP", api.SlowFragment: "fragments", api.SlowOdd: "options or last hop",
	api.SlowRead: "DNS and DHCP", api.SlowLong: "too long", api.SlowAddress: "address not known", api.SlowNoHop: "no next hop",
	api.SlowKind: "of a kind that main passes", api.SlowNoFlow: "of no carried flow", api.SlowShut: "while rules changed", api.SlowAsleep: "not looked after",
	api.SlowStale: "closing or judged again", api.SlowChecksum: "wrong checksum",
}

func topLines(b *bytes.Buffer, wans []api.WANTraffic, m api.MainTraffic) {
	t := newTable("WAN", "DOWN", "UP", "PACKETS DOWN", "PACKETS UP", "FLOWS", "FAST", "")
	for _, w := range wans {
		t.row(w.Name, bits(w.Down), bits(w.Up), packets(w.Down), packets(w.Up), fmt.Sprint(w.Flows), percent(w.FastPercent), slowText(w.FastPath, w.FastPathWhy, w.Slow))
	}
	_ = t.write(b)
	fmt.Fprint(b, "Between the LANs and the lines")
	if m.FastPercent != nil {
		fmt.Fprintf(b, " %s fast", percent(m.FastPercent))
	}
	if why := slowText(m.FastPath, m.FastPathWhy, m.Slow); why != "" {
		fmt.Fprintf(b, "; %s", why)
	}
	b.WriteString(".\n")
}

// slowText says why packets are not fast.
func slowText(path, off string, all []api.SlowTraffic) string {
	if path == "off" {
		return "no fast path: " + off
	}
	slow := slices.DeleteFunc(slices.Clone(all), func(s api.SlowTraffic) bool { return s.PacketsPerS == 0 })
	slices.SortStableFunc(slow, func(a, b api.SlowTraffic) int { return cmp.Compare(b.PacketsPerS, a.PacketsPerS) })
	var why []string
	for _, s := range slow {
		why = append(why, fmt.Sprintf("%s %s/s", cmp.Or(topSlow[s.Why], s.Why), number(s.PacketsPerS)))
	}
	if len(why) == 0 {
		return ""
	}
	return "slow: " + strings.Join(why, ", ")
}

func topHosts(b *bytes.Buffer, hosts []api.HostTraffic) {
	heads := []string{"HOST", "LAN", "DOWN", "UP", "PACKETS DOWN", "PACKETS UP", "TOTAL", "FLOWS", "ADDRESS"}
	fast := slices.ContainsFunc(hosts, func(h api.HostTraffic) bool { return h.FastPercent != nil })
	if fast {
		heads = slices.Insert(heads, 8, "FAST")
	}
	t := newTable(heads...)
	for _, h := range hosts {
		cells := []string{cmp.Or(h.Name, first(h.Addresses[:1])), h.LAN, bits(h.Down), bits(h.Up), packets(h.Down), packets(h.Up), size(h.Down.Bytes + h.Up.Bytes), fmt.Sprint(h.Flows), first(h.Addresses)}
		if fast {
			cells = slices.Insert(cells, 8, percent(h.FastPercent))
		}
		t.row(cells...)
	}
	_ = t.write(b)
}

func topFlows(b *bytes.Buffer, flows []api.FlowTraffic) {
	heads := []string{"FLOW", "", "PEER", "PROTOCOL", "WAN", "DOWN", "UP", "PACKETS DOWN", "PACKETS UP", "TOTAL"}
	fast := slices.ContainsFunc(flows, func(f api.FlowTraffic) bool { return f.FastPercent != nil })
	if fast {
		heads = append(heads, "FAST")
	}
	t := newTable(heads...)
	for _, f := range flows {
		way := ">"
		if f.Inbound {
			way = "<"
		}
		cells := []string{named(f.Name, f.Host), way, named(f.PeerName, f.Peer), f.Protocol, f.WAN, bits(f.Down), bits(f.Up), packets(f.Down), packets(f.Up), size(f.Down.Bytes + f.Up.Bytes)}
		if fast {
			cells = append(cells, percent(f.FastPercent))
		}
		t.row(cells...)
	}
	_ = t.write(b)
}

// named is an end of a flow with the device's name in the place of its address.
func named(name, end string) string {
	if name == "" {
		return end
	}
	if _, port, err := net.SplitHostPort(end); err == nil {
		return name + ":" + port
	}
	return name
}

// cutTo cuts each line to so many characters; 0: none.
func cutTo(text string, width int) string {
	if width <= 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if r := []rune(l); len(r) > width {
			lines[i] = string(r[:width])
		}
	}
	return strings.Join(lines, "\n")
}

func bits(v api.Volume) string { return scaled(v.BitsPerS, "bit/s") }

func size(bytes uint64) string { return scaled(float64(bytes), "B") }

func packets(v api.Volume) string { return number(v.PacketsPerS) + "/s" }

// scaled is three digits of n with a prefix of thousands.
func scaled(n float64, unit string) string {
	for i, prefix := range []string{"", "k", "M", "G", "T", "P"} {
		if n < 999.5 || i == 5 {
			return digits(n) + " " + prefix + unit
		}
		n /= 1000
	}
	return "" // not reached
}

// number is n with three digits, or all before the point.
func number(n float64) string {
	if n >= 999.5 {
		return fmt.Sprintf("%.0f", n)
	}
	return digits(n)
}

func digits(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 9.995:
		return fmt.Sprintf("%.2f", n)
	case n < 99.95:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}
