package config

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// optionType is how a DHCPv4 option goes on the wire (RFC 2132).
type optionType uint8

const (
	_             optionType = iota
	optionIP                 // one IPv4 address
	optionIPs                // one or more
	optionText               // bytes without a final NUL
	optionBytes              // "hex:..." or text
	optionU8                 // numbers, network byte order
	optionU16                //
	optionU32                //
	optionS32                //
	optionFlag               // one byte
	optionDomains            // a search list, RFC 1035 names (RFC 3397)
)

// optionNames are the options that a file may name, as dhcp-options(5) and with
// it most other servers call them.
var optionNames = map[string]struct {
	code uint8
	typ  optionType
}{
	"time-offset":                 {2, optionS32}, // seconds east of UTC
	"routers":                     {3, optionIPs},
	"time-servers":                {4, optionIPs},
	"domain-name-servers":         {6, optionIPs},
	"log-servers":                 {7, optionIPs},
	"lpr-servers":                 {9, optionIPs},
	"boot-size":                   {13, optionU16}, // blocks of 512 bytes
	"domain-name":                 {15, optionText},
	"root-path":                   {17, optionText},
	"ip-forwarding":               {19, optionFlag},
	"default-ip-ttl":              {23, optionU8},
	"interface-mtu":               {26, optionU16},
	"nis-domain":                  {40, optionText},
	"nis-servers":                 {41, optionIPs},
	"ntp-servers":                 {42, optionIPs},
	"vendor-encapsulated-options": {43, optionBytes},
	"netbios-name-servers":        {44, optionIPs},
	"netbios-dd-server":           {45, optionIPs},
	"netbios-node-type":           {46, optionU8},
	"netbios-scope":               {47, optionText},
	"font-servers":                {48, optionIPs},
	"x-display-manager":           {49, optionIPs},
	"vendor-class-identifier":     {60, optionText}, // PXE clients look for "PXEClient"
	"tftp-server-name":            {66, optionText},
	"bootfile-name":               {67, optionText},
	"smtp-server":                 {69, optionIPs},
	"pop-server":                  {70, optionIPs},
	"nntp-server":                 {71, optionIPs},
	"www-server":                  {72, optionIPs},
	"pcode":                       {100, optionText}, // RFC 4833: POSIX TZ
	"tcode":                       {101, optionText}, // RFC 4833: tz database name
	"v6-only-preferred":           {108, optionU32},  // RFC 8925: seconds
	"captive-portal":              {114, optionText}, // RFC 8910: a URL
	"domain-search":               {119, optionDomains},
	"capwap-ac-v4":                {138, optionIPs}, // RFC 5417
	"tftp-server-address":         {150, optionIPs}, // RFC 5859
}

// optionsOfTheServer are set by the server itself.
var optionsOfTheServer = map[string]string{
	"subnet-mask":              "it follows from the LAN's address",
	"broadcast-address":        "it follows from the LAN's address",
	"host-name":                "it is the host's name",
	"dhcp-lease-time":          "say lease",
	"dhcp-server-identifier":   "it is the gateway's address",
	"dhcp-renewal-time":        "it follows from lease",
	"dhcp-rebinding-time":      "it follows from lease",
	"dhcp-message-type":        "it belongs to the protocol",
	"dhcp-requested-address":   "it belongs to the protocol",
	"dhcp-client-identifier":   "it belongs to the protocol",
	"dhcp-max-message-size":    "it belongs to the protocol",
	"dhcp-option-overload":     "it belongs to the protocol",
	"relay-agent-information":  "it belongs to the protocol",
	"classless-static-routes":  "the gateway is the only router of the LAN",
	"rfc3442-classless-routes": "the gateway is the only router of the LAN",
}

// options reads the map of DHCP options: []Option in ascending code.
func (c *checker) options(k *key, e hclsyntax.Expression) (any, bool) {
	m, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		c.err(e.Range(), `Write option = { ntp-servers = "10.0.10.1" }`, "%s takes a map", k.name)
		return nil, false
	}
	good := true
	var opts []Option
	at := make(map[string]hcl.Range)
	for _, it := range m.Items {
		o, ok := c.option(it, at)
		good = good && ok
		if ok {
			opts = append(opts, o)
		}
	}
	slices.SortFunc(opts, func(a, b Option) int { return int(a.Code) - int(b.Code) })
	return opts, good
}

// numbersOfTheServer are options of which the server itself has to say what is in
// them, and those that belong to the protocol; whoever needs another by its number
// knows why.
var numbersOfTheServer = []uint8{1, 12, 28, 50, 51, 52, 53, 54, 55, 57, 58, 59, 61, 80, 82, 90}

func (c *checker) option(it hclsyntax.ObjectConsItem, seen map[string]hcl.Range) (Option, bool) {
	at := it.KeyExpr.Range()
	name := hcl.ExprAsKeyword(it.KeyExpr)
	if name == "" {
		inner := it.KeyExpr
		if w, ok := inner.(*hclsyntax.ObjectConsKeyExpr); ok {
			inner = w.Wrapped
		}
		if n, ok := number(inner); ok {
			return c.optionNumber(n, at, it.ValueExpr, seen)
		}
		detail := `It looks like ntp-servers = "10.0.10.1"`
		if s, ok := literalText(inner); ok {
			if _, known := optionNames[s]; known {
				detail = fmt.Sprintf("Write %s, without quotes.", s)
			}
		}
		c.err(at, detail, "this is no name of a DHCP option")
		return Option{}, false
	}
	def, ok := optionNames[name]
	if !ok {
		detail := ""
		if why, ours := optionsOfTheServer[name]; ours {
			c.err(at, fmt.Sprintf("Leave it out: %s.", why), "%s is the server's own", name)
			return Option{}, false
		}
		if near := Nearest(name, slices.Sorted(maps.Keys(optionNames))); near != "" {
			detail = fmt.Sprintf("Did you mean %s? ", near)
		}
		c.err(at, detail+"Names are those of dhcp-options(5).", "no DHCP option is called %q", name)
		return Option{}, false
	}
	return c.optionOf(def.code, name, def.typ, at, it.ValueExpr, seen)
}

// optionOf reads the value of an option and sees that it stands there once.
func (c *checker) optionOf(code uint8, name string, typ optionType, at hcl.Range, value hclsyntax.Expression, seen map[string]hcl.Range) (Option, bool) {
	if first, twice := seen[name]; twice {
		c.err(at, fmt.Sprintf("%s has it.", sentence(line(first, at))), "%s stands twice in its map", name)
		return Option{}, false
	}
	seen[name] = at
	data, ok := c.optionData(name, typ, value)
	if ok && len(data) > 255 {
		c.err(value.Range(), "An option has at most 255 bytes (RFC 2132, 2).", "%s is too long", name)
		return Option{}, false
	}
	return Option{Code: code, Name: name, Data: data}, ok
}

// optionNumber reads an option that is called by its number: one that has a name
// as that, or as the bytes of hex:...; any other as text or bytes.
func (c *checker) optionNumber(n string, at hcl.Range, value hclsyntax.Expression, seen map[string]hcl.Range) (Option, bool) {
	number, err := strconv.Atoi(n)
	if err != nil || number < 1 || number > 254 {
		c.err(at, "DHCP options have the numbers 1 to 254.", "no DHCP option is called %q", n)
		return Option{}, false
	}
	code := uint8(number)
	if slices.Contains(numbersOfTheServer, code) {
		c.err(at, "Leave it out: it belongs to the protocol, or follows from the LAN's address, the host or lease.", "option %d is the server's own", code)
		return Option{}, false
	}
	name, typ := strconv.Itoa(number), optionBytes
	for known, def := range optionNames {
		if def.code == code {
			name = known
			if s, _ := literalText(value); !strings.HasPrefix(s, "hex:") {
				typ = def.typ
			}
		}
	}
	return c.optionOf(code, name, typ, at, value, seen)
}

// optionData encodes a value.
func (c *checker) optionData(name string, t optionType, e hclsyntax.Expression) ([]byte, bool) {
	exprs := []hclsyntax.Expression{e}
	if l, ok := e.(*hclsyntax.TupleConsExpr); ok {
		if t != optionIPs && t != optionDomains || len(l.Exprs) == 0 {
			c.err(e.Range(), fmt.Sprintf("Write %s = %s", name, optionExample[t]), "%s takes one value", name)
			return nil, false
		}
		exprs = l.Exprs
	}
	var data []byte
	for _, e := range exprs {
		b, ok := optionValue(t, e)
		if !ok {
			c.err(e.Range(), fmt.Sprintf("Write %s = %s", name, optionExample[t]), "this is no value of %s", name)
			return nil, false
		}
		data = append(data, b...)
	}
	return data, true
}

var optionExample = map[optionType]string{
	optionIP: `"10.0.10.1"`, optionIPs: `["10.0.10.1", "10.0.10.2"]`, optionText: `"text"`, optionBytes: `"hex:0104c0a80001"`,
	optionU8: `8, at most 255`, optionU16: `1500, at most 65535`, optionU32: `1800`, optionS32: `3600`, optionFlag: `true`,
	optionDomains: `["home.arpa", "example.net"]`,
}

// inHex are the bytes that "hex:..." stands for, nil if it is no hex, and whether s is of
// that form.
func inHex(s string) (b []byte, isHex bool) {
	h, isHex := strings.CutPrefix(s, "hex:")
	if !isHex {
		return nil, false
	}
	b, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(h))
	if err != nil {
		return nil, true
	}
	return b, true
}

func optionValue(t optionType, e hclsyntax.Expression) ([]byte, bool) {
	s, isText := literalText(e)
	switch t {
	case optionIP, optionIPs:
		a, err := netip.ParseAddr(s)
		return a.AsSlice(), isText && err == nil && a.Is4()
	case optionText:
		return []byte(s), isText && s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' })
	case optionBytes:
		if b, isHex := inHex(s); isHex {
			return b, len(b) > 0
		}
		return []byte(s), isText && s != ""
	case optionFlag:
		l, ok := e.(*hclsyntax.LiteralValueExpr)
		if !ok || l.Val.IsNull() || l.Val.Type() != cty.Bool {
			return nil, false
		}
		if l.Val.True() {
			return []byte{1}, true
		}
		return []byte{0}, true
	case optionDomains:
		return dnsWire(s), isText && validDomain(s)
	}
	digits, ok := number(e)
	if !ok {
		return nil, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return nil, false
	}
	switch t {
	case optionU8:
		return []byte{byte(n)}, n >= 0 && n <= 0xff
	case optionU16:
		return binary.BigEndian.AppendUint16(nil, uint16(n)), n >= 0 && n <= 0xffff
	case optionU32:
		return binary.BigEndian.AppendUint32(nil, uint32(n)), n >= 0 && n <= 0xffffffff
	case optionS32:
		return binary.BigEndian.AppendUint32(nil, uint32(int32(n))), n >= -1<<31 && n < 1<<31
	}
	return nil, false
}

// dnsWire encodes a domain as RFC 1035, 3.1 has it, without compression.
func dnsWire(s string) []byte {
	var b []byte
	for l := range strings.SplitSeq(strings.ToLower(s), ".") {
		b = append(append(b, byte(len(l))), l...)
	}
	return append(b, 0)
}
