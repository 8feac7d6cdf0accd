package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/ruleset"
)

// dumpSets reads the named sets into f and returns the anonymous ones, which
// are part of their rules, by name.
func (s *space) dumpSets(f *form) (map[string]string, error) {
	msgs, err := s.nftDump(unix.NFT_MSG_GETSET, func(e *netlink.AttributeEncoder) { e.String(unix.NFTA_SET_TABLE, ruleset.TableName) })
	if err != nil {
		return nil, err
	}
	anonymous := map[string]string{}
	for _, m := range msgs {
		if len(m.Data) < 4 || m.Data[0] != nfInet {
			continue
		}
		var name, table string
		var flags, keyType uint32
		var head []string
		if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_SET_TABLE:
				table = d.String()
			case unix.NFTA_SET_NAME:
				name = d.String()
			case unix.NFTA_SET_FLAGS:
				flags = be32(d.Bytes())
			case unix.NFTA_SET_KEY_TYPE:
				keyType = be32(d.Bytes())
			}
			switch d.Type() {
			case unix.NFTA_SET_FLAGS, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN, unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_OBJ_TYPE:
				head = append(head, fmt.Sprintf("%d=%x", d.Type(), d.Bytes()))
			}
		}); err != nil {
			return nil, err
		}
		if table != ruleset.TableName {
			continue
		}
		slices.Sort(head)
		set := setForm{Head: strings.Join(head, " "), Map: flags&(setMap|setObject) != 0}
		if flags&setEval == 0 { // else packets fill it
			if set.Elems, err = s.elements(name, keyType, flags); err != nil {
				return nil, err
			}
		}
		if flags&setAnonymous != 0 {
			sum := sha256.Sum256([]byte(set.Head + strings.Join(set.Elems, "\n")))
			anonymous[name] = string(sum[:])
			continue
		}
		f.Sets[name] = set
	}
	return anonymous, nil
}

// elements returns the elements of a set, each as its key for people, and all
// of it for the machine.
func (s *space) elements(set string, keyType, flags uint32) ([]string, error) {
	msgs, err := s.nftDump(unix.NFT_MSG_GETSETELEM, func(e *netlink.AttributeEncoder) {
		e.String(unix.NFTA_SET_ELEM_LIST_TABLE, ruleset.TableName)
		e.String(unix.NFTA_SET_ELEM_LIST_SET, set)
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range msgs {
		if len(m.Data) < 4 {
			continue
		}
		if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
			if d.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				return
			}
			d.Nested(func(d *netlink.AttributeDecoder) error {
				for d.Next() {
					if e, ok := element(d.Bytes(), keyType, flags); ok {
						out = append(out, e)
					}
				}
				return nil
			})
		}); err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return out, nil
}

// element is "KEY HEX". ok is false for one that goes away by itself: it was
// learned.
func element(b []byte, keyType, flags uint32) (string, bool) {
	var key []byte
	var rest []string
	learned := false
	_ = decode(b, func(d *netlink.AttributeDecoder) {
		switch d.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			key = attrBytes(d.Bytes(), unix.NFTA_DATA_VALUE)
			rest = append(rest, hex.EncodeToString(key))
		case unix.NFTA_SET_ELEM_DATA, 10, unix.NFTA_SET_ELEM_USERDATA, 9: // _KEY_END, _OBJREF
			rest = append(rest, fmt.Sprintf("%d=%x", d.Type(), d.Bytes()))
		case unix.NFTA_SET_ELEM_FLAGS:
			if v := be32(d.Bytes()); v != 0 {
				rest = append(rest, fmt.Sprintf("flags=%x", v))
			}
		case unix.NFTA_SET_ELEM_EXPIRATION:
			learned = flags&setTimeout != 0
		}
	})
	return keyText(key, keyType) + " " + strings.Join(rest, ","), !learned
}

func attrBytes(b []byte, typ uint16) (v []byte) {
	_ = decode(b, func(d *netlink.AttributeDecoder) {
		if d.Type() == typ {
			v = d.Bytes()
		}
	})
	return v
}

// keyText shows a key of the commonest types (nft's datatype.h): 7 ipv4_addr, 8
// ipv6_addr, 13 inet_service, 41 ifname.
func keyText(key []byte, typ uint32) string {
	switch {
	case typ == 7 && len(key) == 4, typ == 8 && len(key) == 16:
		a, _ := netip.AddrFromSlice(key)
		return a.String()
	case typ == 13 && len(key) == 2:
		return fmt.Sprint(binary.BigEndian.Uint16(key))
	case typ == 41:
		if s := strings.TrimRight(string(key), "\x00"); s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return s
		}
	}
	return "0x" + hex.EncodeToString(key)
}
