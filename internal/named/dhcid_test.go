package named

import "testing"

// The examples of RFC 4701, 3.6.
func TestDHCID(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind uint16
		id   []byte
		want string
	}{
		{"chi6.example.com", dhcidDUID, []byte{0, 1, 0, 6, 0x41, 0x2d, 0xf1, 0x66, 1, 2, 3, 4, 5, 6}, "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="},
		{"chi.example.com", dhcidOption61, []byte{1, 7, 8, 9, 10, 11, 12}, "AAEBOSD+XR3Os/0LozeXVqcNc7FwCfQdWL3b/NaiUDlW2No="},
		{"client.example.com", dhcidHardware, []byte{1, 1, 2, 3, 4, 5, 6}, "AAABxLmlskllE0MVjd57zHcWmEH3pCQ6VytcKD//7es/deY="},
	} {
		if got, err := dhcid(tt.name, tt.kind, tt.id); got != tt.want {
			t.Errorf("%s: %s %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

// Who is told apart by what it sent.
func TestDHCIDOfLease(t *testing.T) {
	for _, tt := range []struct {
		l    Lease
		kind uint16
		id   []byte
	}{
		{Lease{Client: "mac:01:02:03:04:05:06", MAC: "01:02:03:04:05:06"}, dhcidHardware, []byte{1, 1, 2, 3, 4, 5, 6}},
		{Lease{Client: "01070809", MAC: "01:02:03:04:05:06"}, dhcidOption61, []byte{1, 7, 8, 9}},
		{Lease{Client: "ff00000001000300010203", MAC: "01:02:03:04:05:06"}, dhcidDUID, []byte{0, 3, 0, 1, 2, 3}},
	} {
		want, _ := dhcid("a.local.", tt.kind, tt.id)
		if got, err := dhcidOf("a.local.", tt.l); got != want || err != nil {
			t.Errorf("%+v: %s %v, want %s", tt.l, got, err, want)
		}
	}
}
