package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"weir/internal/config"
)

func withWANs(names ...string) *config.Config {
	c := &config.Config{}
	for _, n := range names {
		c.WANs = append(c.WANs, config.WAN{Name: n})
	}
	return c
}

func TestSettle(t *testing.T) {
	ula, random := netip.MustParsePrefix("fd01:203:405::/48"), []byte{1, 2, 3, 4, 5}
	said := withWANs("b")
	said.Gateway.ULA = netip.MustParsePrefix("fd99::/48")
	full := map[string]uint8{}
	for k := 1; k <= 255; k++ {
		full[fmt.Sprint("old", k)] = uint8(k)
	}
	for _, tt := range []struct {
		name string
		had  house
		file *config.Config
		want map[string]uint8
		ula  netip.Prefix
	}{
		{"a new house", house{}, withWANs("a", "b"), map[string]uint8{"a": 1, "b": 2}, ula},
		{"a line before the others keeps their numbers", house{ULA: ula, Index: map[string]uint8{"a": 1, "b": 2}}, withWANs("c", "b"), map[string]uint8{"a": 1, "b": 2, "c": 3}, ula},
		{"a line that comes back has its own", house{ULA: ula, Index: map[string]uint8{"a": 7}}, withWANs("a"), map[string]uint8{"a": 7}, ula},
		{"a prefix once made stays", house{ULA: netip.MustParsePrefix("fd42::/48")}, withWANs(), map[string]uint8{}, netip.MustParsePrefix("fd42::/48")},
		{"the file's prefix wins", house{ULA: ula, Index: map[string]uint8{"a": 1}}, said, map[string]uint8{"a": 1, "b": 2}, said.Gateway.ULA},
		{"all numbers are out", house{ULA: ula, Index: full}, withWANs("new", "old2"), map[string]uint8{"old2": 2, "new": 1}, ula},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := settle(tt.had, tt.file, bytes.NewReader(random))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got.Index); d != "" {
				t.Error(d)
			}
			if got.ULA != tt.ula {
				t.Errorf("ULA %v, want %v", got.ULA, tt.ula)
			}
		})
	}
}

func TestSettleLeavesItsArgumentAlone(t *testing.T) {
	had := house{ULA: netip.MustParsePrefix("fd42::/48"), Index: map[string]uint8{"a": 1}}
	if _, err := settle(had, withWANs("b"), nil); err != nil {
		t.Fatal(err)
	}
	if len(had.Index) != 1 {
		t.Errorf("the numbers in force were changed: %v", had.Index)
	}
}

func TestSettleWithoutRandom(t *testing.T) {
	broken := errors.New("no randomness")
	if _, err := settle(house{}, withWANs(), iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
