package named

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// Anchors are the root's keys that validation starts from, as DS records: IANA's
// of 2017 and of 2024 (https://www.iana.org/dnssec/files). named follows later
// ones by RFC 5011.
const Anchors = `. IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D
. IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16
`

// AnchorsFile is the file in the state directory that takes the place of Anchors:
// a lab has a root of its own.
const AnchorsFile = "root-anchors"

// ParseAnchors reads DS records of the root in master-file form.
func ParseAnchors(text string) ([]*dns.DS, error) {
	zp := dns.NewZoneParser(strings.NewReader(text), ".", AnchorsFile)
	zp.SetDefaultTTL(0)
	var out []*dns.DS
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		ds, isDS := rr.(*dns.DS)
		if !isDS || ds.Hdr.Name != "." {
			return nil, fmt.Errorf("%s: %q is no DS record of the root", AnchorsFile, rr.String())
		}
		out = append(out, ds)
	}
	if err := zp.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", AnchorsFile, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: it holds no DS record", AnchorsFile)
	}
	return out, nil
}
