package config

import "time"

// Release is the version whose language this is. What is marked later in the
// table is known by name, and refused by name.
const Release = "0.1"

// valueType is what a key's value is. Its word stands in docs/reference.hcl.
type valueType uint8

const (
	_ valueType = iota
	typeText
	typeFile
	typeWord
	typeFlag
	typeInt
	typeDuration
	typeDomain
	typeLabel
	typeZone
	typeIP
	typeIPLen
	typePrefix
	typeMAC
	typeRange
	typeRange6
	typePort
	typeProtocol
	typeRef
	typePlace
	typeTarget
	typeServer
	typeTimeServer
	typeInterface
	typeOptions
)

// typeWords says each type in the words of the reference, and shows one.
var typeWords = map[valueType]struct{ name, example string }{
	typeText:       {"text", `"text"`},
	typeFile:       {"file", `"keys/acme.key"`},
	typeWord:       {"word", `"word"`},
	typeFlag:       {"true or false", `true`},
	typeInt:        {"number", `1`},
	typeDuration:   {"time", `"30s"`},
	typeDomain:     {"domain", `"home.arpa"`},
	typeLabel:      {"host name", `"nas"`},
	typeZone:       {"time zone", `"Europe/Berlin"`},
	typeIP:         {"address", `"10.0.10.1"`},
	typeIPLen:      {"address with its network", `"10.0.10.1/24"`},
	typePrefix:     {"network", `"10.0.10.0/24"`},
	typeMAC:        {"MAC address", `"02:00:00:00:00:23"`},
	typeRange:      {"range of addresses", `"10.0.10.100-10.0.10.200"`},
	typeRange6:     {"range of IPv6 addresses", `"::1000-::1fff"`},
	typePort:       {"port", `80, or "10000-20000"`},
	typeProtocol:   {"protocol", `"tcp", "udp", "icmp" or a number`},
	typeRef:        {"name", `wan.fiber`},
	typePlace:      {"place", `host.nas, lan.home, wan, self, "10.0.10.0/24"`},
	typeTarget:     {"target", `"1.1.1.1", "tcp://1.1.1.1:443" or "dns://9.9.9.9/example.org"`},
	typeServer:     {"resolver", `"9.9.9.9", or "tls://9.9.9.9#dns.quad9.net"`},
	typeTimeServer: {"time server", `"192.0.2.123", "ntp.example.org", or "nts://time.cloudflare.com"`},
	typeInterface:  {"port's name", `"eth0"`},
	typeOptions:    {"map", `{ ntp-servers = "10.0.10.1" }`},
}

// word is one of the words that a key takes.
type word struct {
	text  string
	later bool
}

func words(now ...string) []word {
	w := make([]word, len(now))
	for i, s := range now {
		w[i].text = s
	}
	return w
}

// key is a row of the language: an attribute of a block.
type key struct {
	name     string
	typ      valueType
	list     bool // takes one or a list
	empty    bool // [] is a value: none
	required bool
	shown    bool // optional, but the reference's block would say nothing without it
	later    bool

	words    []word // typeWord
	kinds    []Kind // typeRef and typePlace: what may be pointed at
	text     bool   // typePlace: addresses too
	min, max int64  // typeInt, typeDuration (ns)
	unit     string // of a bare number, where the type does not say it

	// unsaid is what leaving the key out means: def where it can be written
	// (it is read exactly as if the file had it), else words.
	def, unsaid string

	source  string // the field's own name for it
	doc     string // one sentence, for the reference
	example string // an expression for the reference, where there is no def
}

// labelRule says what stands between a block's type and its brace.
type labelRule uint8

const (
	labelNone   labelRule = iota
	labelName             // a name of ours: [a-z][a-z0-9-]*
	labelDomain           // a domain of host names
	labelRecord           // a name in a zone: also @, *.NAME, and labels with an underscore
	labelAny              // the name that others give (of later blocks)
)

// block is a block of the language.
type block struct {
	name    string
	kind    Kind // what a reference calls it; "" for blocks that nobody points at
	label   labelRule
	maxName int  // bytes in the name
	once    bool // within its parent; without: as many as wanted
	later   bool

	doc     string
	like    string // the block that explains the same keys
	example string // the label that the reference uses
	keys    []*key
	blocks  []*block
}

func (b *block) key(name string) *key {
	for _, k := range b.keys {
		if k.name == name {
			return k
		}
	}
	return nil
}

func (b *block) block(name string) *block {
	for _, s := range b.blocks {
		if s.name == name {
			return s
		}
	}
	return nil
}

// laterKeys are keys that the language has and this release has not.
func laterKeys(names ...string) []*key {
	ks := make([]*key, len(names))
	for i, n := range names {
		ks[i] = &key{name: n, later: true}
	}
	return ks
}

func laterBlock(name string, keys []string, blocks ...*block) *block {
	return &block{name: name, later: true, label: labelAny, keys: laterKeys(keys...), blocks: blocks}
}

const (
	ms   = int64(time.Millisecond)
	sec  = int64(time.Second)
	mnt  = int64(time.Minute)
	hour = int64(time.Hour)
	day  = 24 * hour
)
