package gateway

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"

	"weir/internal/config"
	"weir/internal/state"
)

// house is what is made once for a house and kept for good.
type house struct {
	ULA   netip.Prefix
	Index map[string]uint8 // by WAN, 1 to 255: the low byte of the ct mark
}

// settle returns h with what the file needs and h lacks yet: a ULA from random
// (RFC 4193, 3.2; only if the file names none) and a number for each WAN. A number
// once given stays its WAN's, as running flows carry it, also while the file does
// without that WAN; only when all 255 are out are those given anew.
func settle(h house, c *config.Config, random io.Reader) (house, error) {
	if c.Gateway.ULA.IsValid() {
		h.ULA = c.Gateway.ULA
	} else if !h.ULA.IsValid() {
		b := [16]byte{0xfd}
		if _, err := io.ReadFull(random, b[1:6]); err != nil {
			return h, fmt.Errorf("make the house's own IPv6 prefix: %w", err)
		}
		h.ULA = netip.PrefixFrom(netip.AddrFrom16(b), 48)
	}
	index := maps.Clone(h.Index)
	if index == nil {
		index = map[string]uint8{}
	}
	wanted := map[string]bool{}
	for _, w := range c.WANs {
		wanted[w.Name] = true
	}
	for _, w := range c.WANs {
		if index[w.Name] != 0 {
			continue
		}
		k := free(index)
		if k == 0 {
			maps.DeleteFunc(index, func(name string, _ uint8) bool { return !wanted[name] })
			if k = free(index); k == 0 {
				return h, fmt.Errorf("the file has more than 255 WANs, and a ct mark has room for 255")
			}
		}
		index[w.Name] = k
	}
	h.Index = index
	return h, nil
}

// since is what has to be stored of h where old is stored.
func (h house) since(old house) []state.Item {
	var items []state.Item
	if h.ULA != old.ULA {
		items = append(items, state.KeepULA(h.ULA))
	}
	for _, name := range slices.Sorted(maps.Keys(h.Index)) {
		if h.Index[name] != old.Index[name] {
			items = append(items, state.KeepIndex(name, h.Index[name]))
		}
	}
	return items
}

// free is the lowest number that no WAN has, 0 if there is none.
func free(index map[string]uint8) uint8 {
	var taken [256]bool
	for _, k := range index {
		taken[k] = true
	}
	for k := 1; k < len(taken); k++ {
		if !taken[k] {
			return uint8(k)
		}
	}
	return 0
}
