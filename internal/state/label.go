package state

import "strings"

// Label makes a DNS label of what a device calls itself (RFC 1123, 2.1): the first part
// in lower case, what people put between words as a hyphen, at most 63 bytes;
// "" if nothing is left.
func Label(b []byte) string {
	s, _, _ := strings.Cut(string(b), ".")
	var out strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c >= 'A' && c <= 'Z':
			out.WriteByte(c + 'a' - 'A')
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-':
			out.WriteByte(c)
		case c == ' ' || c == '_':
			out.WriteByte('-')
		}
	}
	s = strings.Trim(out.String(), "-")
	if len(s) > 63 {
		s = strings.Trim(s[:63], "-")
	}
	return s
}
