package gateway

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/state"
)

// house is what is made once for a house and kept for good.
type house struct {
	ULA   netip.Prefix
	Index map[string]uint8  // by WAN, 1 to 255: the low byte of the ct mark
	LANs  map[string]uint16 // which /64 of a delegated prefix is a LAN's
	DUID  string            // who the house is to DHCPv6 servers, in hex; "" until that is needed
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
	h.LANs = desired.Numbers(c, h.LANs)
	if h.DUID == "" && (slices.ContainsFunc(c.WANs, func(w config.WAN) bool { return w.IPv6.Asks() }) || slices.ContainsFunc(c.LANs, serves6)) {
		// A DUID-UUID (RFC 6355): of no port, as ports come and go.
		b := make([]byte, 16)
		if _, err := io.ReadFull(random, b); err != nil {
			return h, fmt.Errorf("make the house's DUID: %w", err)
		}
		h.DUID = "0004" + hex.EncodeToString(b)
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
	if h.DUID != old.DUID {
		items = append(items, state.KeepDUID(h.DUID))
	}
	for _, name := range slices.Sorted(maps.Keys(h.LANs)) {
		if n, ok := old.LANs[name]; !ok || n != h.LANs[name] {
			items = append(items, state.KeepLAN(name, h.LANs[name]))
		}
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
