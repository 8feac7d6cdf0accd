package kernel

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/ruleset"
)

// NFT_OBJECT_COUNTER and the attributes of its data (linux/netfilter/nf_tables.h).
const (
	nftObjectCounter = 1
	nftaCounterPkts  = 2
)

// Counters reads how many packets each named counter of main's ruleset has seen:
// one dump, of our table's counters only, on a socket kept for it. Without the
// table there are none. They start at 0 again when the table is made anew. What the fast
// path carried past main's rules is in it (TrafficCounter). Like
// Carrier it waits for nothing else that the Kernel does.
func (k *Kernel) Counters() (map[string]uint64, error) {
	out, err := k.counters.read()
	if err != nil {
		return nil, fmt.Errorf("read the counters of nft table %s: %w", ruleset.TableName, err)
	}
	if err := k.carrier.came(out); err != nil {
		return nil, fmt.Errorf("add what the fast path carried: %w", err)
	}
	return out, nil
}

type counters struct {
	mu  sync.Mutex
	c   *netlink.Conn
	ask []byte
}

func (cs *counters) read() (map[string]uint64, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.c == nil {
		filter, err := attrs(func(e *netlink.AttributeEncoder) {
			e.String(unix.NFTA_OBJ_TABLE, ruleset.TableName)
			e.ByteOrder = binary.BigEndian
			e.Uint32(unix.NFTA_OBJ_TYPE, nftObjectCounter)
		})
		if err != nil {
			return nil, err
		}
		if err := netns.Do("", func() (err error) {
			cs.c, err = dial(unix.NETLINK_NETFILTER)
			return err
		}); err != nil {
			return nil, err
		}
		cs.ask = append(nfgen(nfInet, 0), filter...)
	}
	msgs, err := dump(cs.c, nftSubsys|unix.NFT_MSG_GETOBJ, cs.ask)
	if err != nil {
		return nil, err
	}
	out := make(map[string]uint64, len(msgs))
	for _, m := range msgs {
		if len(m.Data) < 4 {
			return nil, short("nft counter", m.Data)
		}
		if m.Data[0] != nfInet {
			continue
		}
		var table, name string
		var data []byte
		if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_OBJ_TABLE:
				table = d.String()
			case unix.NFTA_OBJ_NAME:
				name = d.String()
			case unix.NFTA_OBJ_DATA:
				data = d.Bytes()
			}
		}); err != nil {
			return nil, err
		}
		if pkts := attrBytes(data, nftaCounterPkts); table == ruleset.TableName && len(pkts) == 8 {
			out[name] = binary.BigEndian.Uint64(pkts)
		}
	}
	return out, nil
}

func (cs *counters) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.c != nil {
		cs.c.Close()
		cs.c = nil
	}
}
