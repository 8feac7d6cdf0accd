package config

import "testing"

// TestData: what would end a record's data early is refused, unless it is quoted.
func TestData(t *testing.T) {
	for _, tt := range []struct {
		rrtype, data string
		ok           bool
	}{
		{"CAA", `0 issue ca.example`, true},
		{"CAA", `0 issue ";"`, true}, // RFC 8659, 4.2: nobody may
		{"CAA", `0 issue "ca.example; account=1 (one)"`, true},
		{"CAA", `0 issue "a\";b"`, true},
		{"CAA", `0 issue "ca.example" ; more`, false},
		{"CAA", "0 issue \"ca.example\"\n$INCLUDE /etc/passwd", false},
		{"CAA", "0 issue \"\n\"", false},
		{"MX", `( 10 mail )`, false},
		{"MX", `10 mail ; the old one`, false},
		{"CNAME", "nas\nx 0 IN A 192.0.2.1", false},
	} {
		if err := parseData("example.org", tt.rrtype, tt.data); (err == nil) != tt.ok {
			t.Errorf("%s %q: %v", tt.rrtype, tt.data, err)
		}
	}
}
