package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/ruleset"
	"weir/internal/traffic"
)

// EndFlows ends the flows of main that refused picks, and says how many of them there
// were. Who is inside and only waits on a TCP connection is prodded, as when a line is
// lost; that goes on after it has returned. One that comes to be meanwhile may be
// missed: the rules have been asked about it. To be called before CarryFlows, which
// otherwise carries on what is gone for some seconds.
func (k *Kernel) EndFlows(refused func(traffic.Flow) bool) (ended int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.space("")
	if err != nil {
		return 0, err
	}
	var over []entry
	if err := entries("", 0, nil, func(e entry) {
		if e.client.IsValid() && refused(e.flow()) {
			e.orig = bytes.Clone(e.orig)
			over = append(over, e)
		}
	}); err != nil {
		return 0, err
	}
	var waiting []connection
	for _, e := range over {
		there, err := s.deleteEntry(e)
		if err != nil {
			return ended, fmt.Errorf("end the flow from %s to %s: %w", e.client, e.server, err)
		}
		if !there {
			continue
		}
		ended++
		waits := e.state == tcpEstablished || e.state == tcpFinWait || e.state == tcpCloseWait
		if e.proto == unix.IPPROTO_TCP && waits && len(waiting) < maxProd {
			waiting = append(waiting, e.inside())
		}
	}
	if len(waiting) > 0 {
		k.prods.Go(func() {
			if n, _, err := k.prod(waiting); err != nil {
				k.log.Warn("not all who waited on a connection that ended were told", "told", n, "of", len(waiting), "err", err)
			}
		})
	}
	return ended, nil
}

// inside is a connection as that end of it has it which is in the house.
func (e entry) inside() connection {
	if e.mark&ruleset.MarkIn != 0 {
		return connection{client: e.answers, server: e.seen}
	}
	return connection{client: e.client, server: e.server}
}

// deleteEntry deletes that very entry; false if it is gone.
func (s *space) deleteEntry(e entry) (there bool, err error) {
	data, err := attrs(func(a *netlink.AttributeEncoder) {
		a.ByteOrder = binary.BigEndian
		a.Bytes(ctTupleOrig|unix.NLA_F_NESTED, e.orig)
		a.Uint32(ctID, e.id)
	})
	if err != nil {
		return false, err
	}
	family := 4
	if e.client.Addr().Is6() {
		family = 6
	}
	err = s.request(s.nf, ctDelete, 0, append(nfgen(flowFamily(family), 0), data...))
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}
