package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/ruleset"
)

// The messages and attributes of linux/netfilter/nf_tables.h that x/sys/unix
// has are taken from there; values within are big-endian.
const (
	nftSubsys = unix.NFNL_SUBSYS_NFTABLES << 8
	nfInet    = unix.NFPROTO_INET

	nftaChainFlags = 10 // NFTA_CHAIN_FLAGS
)

// nfgen is struct nfgenmsg.
func nfgen(family, version uint8) []byte { return []byte{family, version, 0, 0} }

// form is a table in normal form: without handles, counters' values and what
// was learned; rules by hash. Two forms of one text are equal.
type form struct {
	Chains map[string]chainForm `json:"chains"`
	Sets   map[string]setForm   `json:"sets"`
	Objs   []string             `json:"objs"` // "counter web", sorted
}

type chainForm struct {
	Head  string     `json:"head"`
	Rules []ruleForm `json:"rules"`
}

type ruleForm struct {
	Comment string `json:"comment,omitempty"` // the rule's name
	Hash    string `json:"hash"`
}

type setForm struct {
	Head  string   `json:"head"`
	Map   bool     `json:"map,omitempty"`
	Elems []string `json:"elems,omitempty"` // sorted
}

// generation returns the number of the namespace's last nft transaction.
func (s *space) generation() (uint32, error) {
	msgs, err := ask(s.nf, nftSubsys|unix.NFT_MSG_GETGEN, nfgen(unix.AF_UNSPEC, 0))
	if err != nil {
		return 0, fmt.Errorf("ask nftables in %s for its generation: %w", place(s.name), err)
	}
	var gen uint32
	for _, m := range msgs {
		if len(m.Data) < 4 {
			return 0, short("nft generation", m.Data)
		}
		if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
			if d.Type() == unix.NFTA_GEN_ID {
				gen = be32(d.Bytes())
			}
		}); err != nil {
			return 0, err
		}
	}
	return gen, nil
}

// dumpTable returns the table in normal form, nil if there is none, and the
// generation at which it was so.
func (s *space) dumpTable() (*form, uint32, error) {
	for range 10 {
		before, err := s.generation()
		if err != nil {
			return nil, 0, err
		}
		f, err := s.dumpOnce()
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, errInterrupted) {
			return nil, 0, fmt.Errorf("read nft table %s in %s: %w", ruleset.TableName, place(s.name), err)
		}
		after, gerr := s.generation()
		if gerr != nil {
			return nil, 0, gerr
		}
		if before == after && err == nil {
			return f, after, nil
		}
	}
	return nil, 0, fmt.Errorf("read nft table %s in %s: %w", ruleset.TableName, place(s.name), errInterrupted)
}

func (s *space) nftDump(msg uint16, a func(e *netlink.AttributeEncoder)) ([]netlink.Message, error) {
	data, err := attrs(a)
	if err != nil {
		return nil, err
	}
	return dump(s.nf, netlink.HeaderType(nftSubsys|msg), append(nfgen(nfInet, 0), data...))
}

func (s *space) dumpOnce() (*form, error) {
	name, err := attrs(func(e *netlink.AttributeEncoder) { e.String(unix.NFTA_TABLE_NAME, ruleset.TableName) })
	if err != nil {
		return nil, err
	}
	if _, err := ask(s.nf, nftSubsys|unix.NFT_MSG_GETTABLE, append(nfgen(nfInet, 0), name...)); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, err
	}
	f := &form{Chains: map[string]chainForm{}, Sets: map[string]setForm{}}
	anonymous, err := s.dumpSets(f)
	if err != nil {
		return nil, err
	}
	if err := s.dumpChains(f); err != nil {
		return nil, err
	}
	if err := s.dumpRules(f, anonymous); err != nil {
		return nil, err
	}
	return f, s.dumpObjects(f)
}

func (s *space) dumpChains(f *form) error {
	msgs, err := s.nftDump(unix.NFT_MSG_GETCHAIN, func(*netlink.AttributeEncoder) {})
	if err != nil {
		return err
	}
	for _, m := range msgs {
		if len(m.Data) < 4 || m.Data[0] != nfInet {
			continue
		}
		var table, name string
		var head []string
		if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_CHAIN_TABLE:
				table = d.String()
			case unix.NFTA_CHAIN_NAME:
				name = d.String()
			case unix.NFTA_CHAIN_TYPE, unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, nftaChainFlags:
				head = append(head, fmt.Sprintf("%d=%x", d.Type(), d.Bytes()))
			}
		}); err != nil {
			return err
		}
		if table == ruleset.TableName {
			slices.Sort(head)
			f.Chains[name] = chainForm{Head: strings.Join(head, " ")}
		}
	}
	return nil
}

func (s *space) dumpRules(f *form, anonymous map[string]string) error {
	msgs, err := s.nftDump(unix.NFT_MSG_GETRULE, func(e *netlink.AttributeEncoder) { e.String(unix.NFTA_RULE_TABLE, ruleset.TableName) })
	if err != nil {
		return err
	}
	for _, m := range msgs {
		if len(m.Data) < 4 || m.Data[0] != nfInet {
			continue
		}
		var table, chain string
		var r ruleForm
		sum := sha256.New()
		var inner error
		if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_RULE_TABLE:
				table = d.String()
			case unix.NFTA_RULE_CHAIN:
				chain = d.String()
			case unix.NFTA_RULE_USERDATA:
				r.Comment = comment(d.Bytes())
				sum.Write(d.Bytes())
			case unix.NFTA_RULE_EXPRESSIONS:
				inner = expressions(d.Bytes(), anonymous, func(name string, data []byte) {
					fmt.Fprintf(sum, "%s %d ", name, len(data))
					sum.Write(data)
				})
			}
		}); err != nil {
			return err
		}
		if inner != nil {
			return inner
		}
		if table != ruleset.TableName {
			continue
		}
		r.Hash = hex.EncodeToString(sum.Sum(nil)[:8])
		c := f.Chains[chain]
		c.Rules = append(c.Rules, r)
		f.Chains[chain] = c
	}
	return nil
}

// comment reads the comment out of a rule's userdata: type, length, value
// (libnftnl's udata.h), type 0 is the comment.
func comment(b []byte) string {
	for len(b) >= 2 {
		n := int(b[1])
		if n > len(b)-2 {
			return ""
		}
		if b[0] == 0 {
			return strings.TrimRight(string(b[2:2+n]), "\x00")
		}
		b = b[2+n:]
	}
	return ""
}

// expressions calls f for each expression of a rule, without what packets
// change in it, and with an anonymous set's content in place of its name.
func expressions(b []byte, anonymous map[string]string, f func(name string, data []byte)) error {
	return decode(b, func(d *netlink.AttributeDecoder) {
		d.Nested(func(d *netlink.AttributeDecoder) error {
			var name string
			var data []byte
			for d.Next() {
				switch d.Type() {
				case unix.NFTA_EXPR_NAME:
					name = d.String()
				case unix.NFTA_EXPR_DATA:
					data = d.Bytes()
				}
			}
			switch name {
			case "counter", "last":
				data = nil
			case "quota":
				data = keep(data, 1, 2) // NFTA_QUOTA_BYTES, _FLAGS; not _CONSUMED
			case "lookup":
				if content, ok := anonymous[attrString(data, unix.NFTA_LOOKUP_SET)]; ok {
					data = append(keep(data, unix.NFTA_LOOKUP_SREG, unix.NFTA_LOOKUP_DREG, unix.NFTA_LOOKUP_FLAGS), content...)
				}
			}
			f(name, data)
			return nil
		})
	})
}

// keep returns the attributes of b of these types, as bytes.
func keep(b []byte, types ...uint16) []byte {
	var out []byte
	_ = decode(b, func(d *netlink.AttributeDecoder) {
		if slices.Contains(types, d.Type()) {
			out = binary.BigEndian.AppendUint16(out, d.Type())
			out = append(out, d.Bytes()...)
		}
	})
	return out
}

func attrString(b []byte, typ uint16) (s string) {
	_ = decode(b, func(d *netlink.AttributeDecoder) {
		if d.Type() == typ {
			s = d.String()
		}
	})
	return s
}

// Flags of a set (linux/netfilter/nf_tables.h).
const (
	setAnonymous = 0x1
	setMap       = 0x8
	setTimeout   = 0x10
	setEval      = 0x20
	setObject    = 0x40
)

func (s *space) dumpObjects(f *form) error {
	msgs, err := s.nftDump(unix.NFT_MSG_GETOBJ, func(e *netlink.AttributeEncoder) { e.String(unix.NFTA_OBJ_TABLE, ruleset.TableName) })
	if err != nil {
		return err
	}
	kinds := map[uint32]string{1: "counter", 2: "quota", 3: "ct helper", 4: "limit", 7: "ct timeout", 9: "ct expectation", 10: "synproxy"}
	for _, m := range msgs {
		if len(m.Data) < 4 || m.Data[0] != nfInet {
			continue
		}
		var table, name string
		var typ uint32
		if err := decode(m.Data[4:], func(d *netlink.AttributeDecoder) {
			switch d.Type() {
			case unix.NFTA_OBJ_TABLE:
				table = d.String()
			case unix.NFTA_OBJ_NAME:
				name = d.String()
			case unix.NFTA_OBJ_TYPE:
				typ = be32(d.Bytes())
			}
		}); err != nil {
			return err
		}
		if table == ruleset.TableName {
			kind := kinds[typ]
			if kind == "" {
				kind = "object"
			}
			f.Objs = append(f.Objs, kind+" "+name)
		}
	}
	slices.Sort(f.Objs)
	return nil
}

func be32(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}
