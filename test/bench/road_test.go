package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
	"weir/internal/lab/labtest"
	"weir/internal/netns/netnstest"
)

// onRoad brings up a kind of road in a lab of its own. weir's want the binary.
func onRoad(t *testing.T, name string, f func(t *testing.T, r *road)) {
	t.Helper()
	k, err := kindOf(name)
	if err != nil {
		t.Fatal(err)
	}
	weir := os.Getenv("WEIR_BIN")
	if weir == "" && (k.fast || name == "weir") {
		netnstest.Missing(t, "weir", os.ErrNotExist)
	}
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		r, err := newRoad(t.Context(), l, name, weir)
		needs(t, err)
		f(t, r)
	})
}

// Each road carries all that is sent, as its row says.
func TestRoads(t *testing.T) {
	for _, k := range kinds {
		if k.name == "xdp" {
			continue // weir refuses it so far
		}
		t.Run(k.name, func(t *testing.T) {
			onRoad(t, k.name, func(t *testing.T, r *road) {
				g, err := r.generator(100)
				needs(t, err)
				f, err := r.warm(t.Context(), g, 100, 20*time.Second)
				if err == nil {
					err = k.judge(f)
				}
				if err != nil {
					t.Fatalf("%v: %+v", err, f)
				}
				for _, sink := range sinks {
					if err := r.use(sink); err != nil {
						t.Fatal(err)
					}
					if f, err = r.packets(g, 5000, 0); err == nil {
						err = k.judge(f)
					}
					if err != nil {
						t.Errorf("%s: %v: %+v", sink, err, f)
					}
				}
			})
		})
	}
}

// A row that does not do what it says is told, and is no figure.
func TestSaboteurs(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		spoil      func(t *testing.T, r *road) error
		told       string
	}{
		{"nobody forwards", "plain", func(_ *testing.T, r *road) error {
			return r.lab.Gateway().Sysctl("net/ipv4/ip_forward", "0")
		}, "carries nothing"},
		{"nobody translates", "peer", func(t *testing.T, r *road) error {
			_, err := r.lab.Gateway().Run(t.Context(), "nft", "flush chain inet peer translate_out")
			return err
		}, "other addresses"},
		{"every other is lost", "plain", func(t *testing.T, r *road) error {
			return loadRules(t.Context(), r.lab.Gateway(), "table ip lossy { chain half { type filter hook forward priority 0; numgen inc mod 2 == 0 drop; }; }")
		}, "lost packets"},
		{"nothing goes fast", "weir", func(_ *testing.T, r *road) error {
			r.fast = true // as its row would say
			return nil
		}, "0.00 of the packets were carried fast"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onRoad(t, c.kind, func(t *testing.T, r *road) {
				if err := c.spoil(t, r); err != nil {
					t.Fatal(err)
				}
				g, err := r.generator(100)
				needs(t, err)
				f, err := r.warm(t.Context(), g, 100, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.judge(f); err == nil || !strings.Contains(err.Error(), c.told) {
					t.Errorf("told %v, not %q: %+v", err, c.told, f)
				}
			})
		})
	}
}

// What is measured besides packets: it comes to a figure, of the road that it should be.
func TestConversations(t *testing.T) {
	onRoad(t, "peer", func(t *testing.T, r *road) {
		for _, o := range []order{
			{Do: "connections", Lasts: 20 * time.Millisecond}, {Do: "udp", Lasts: time.Second}, {Do: "tcp", Lasts: time.Second},
			{Do: "stream", Offloads: true}, {Do: "stream", Down: true},
		} {
			f, err := r.do(t.Context(), o)
			if err != nil || f.Count <= 0 || f.Per <= 0 {
				t.Errorf("%+v: %v: %+v", o, err, f)
			}
			if slow, err := forwarded(r.lab.Gateway()); err != nil || slow == 0 {
				t.Errorf("%+v: the gateway passed on %.0f packets, %v", o, slow, err)
			}
		}
		if _, err := r.lab.Gateway().Run(t.Context(), "nft", "add rule inet peer through drop; insert rule inet peer through drop"); err != nil {
			t.Fatal(err)
		}
		if f, err := r.do(t.Context(), order{Do: "connections", Lasts: 20 * time.Millisecond}); err == nil {
			t.Errorf("nothing gets through, and %+v came out", f)
		}
	})
}

// A ratio is of two figures of one round, and a figure that was not counted has none.
func TestRatios(t *testing.T) {
	tab := table{[]map[string]float64{{"a": 2, "peer": 1}, {"a": 9}, {"peer": 5}, {"a": 9, "peer": 3}}}
	if got := tab.ratios("a", "peer"); len(got) != 2 || got[0] != 2 || got[1] != 3 {
		t.Errorf("ratios are %v", got)
	}
	if got := some(tab.ratios("b", "peer"), "%.1f"); got != "-" {
		t.Errorf("of nothing: %q", got)
	}
	c := conversation{}
	fast := kind{name: "tc", fast: true}
	for _, f := range []figure{{}, {Count: 1}, {Count: 1, Per: 1, Sent: 100, Slow: 11}} {
		if c.judge(fast, f) == nil {
			t.Errorf("counted: %+v", f)
		}
	}
	if err := c.judge(fast, figure{Count: 1, Per: 1, Sent: 100, Slow: 9}); err != nil {
		t.Error(err)
	}
}
