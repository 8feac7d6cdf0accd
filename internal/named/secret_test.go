package named

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A key's file of which any byte was changed, or which was cut anywhere, gives the key that was written or another one
// that is in its file: never one that nobody knows, and what was damaged is kept aside.
func TestDamagedKey(t *testing.T) {
	k := Key{Name: "acme", Algorithm: "hmac-sha256"}
	dir := t.TempDir()
	path := filepath.Join(dir, "acme.key")
	first, damage, err := secret(dir, k)
	if err != nil || damage != "" {
		t.Fatal(damage, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if s, damage, err := secret(dir, k); err != nil || damage != "" || s != first {
		t.Fatalf("read again it is another: %q, %v", damage, err)
	}
	try := func(what string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path + ".bad")
		s, damage, err := secret(dir, k)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if damage == "" && s == first {
			return
		}
		bad, err := os.ReadFile(path + ".bad")
		if damage == "" || s == first || err != nil || string(bad) != string(text) || !strings.Contains(damage, path+".bad") {
			t.Fatalf("%s: damage %q, the same key: %t, kept aside: %v", what, damage, s == first, err)
		}
		if again, more, err := secret(dir, k); err != nil || more != "" || again != s {
			t.Fatalf("%s: the new key does not stay: %q, %v", what, more, err)
		}
	}
	for i := range whole {
		b := append([]byte(nil), whole...)
		b[i] ^= 1 << (i % 8)
		try("a changed byte", b)
		try("a cut", whole[:i])
	}
	try("zeroes", make([]byte, len(whole)))

	// tsig-keygen's own has no seal, and is taken as it is; another algorithm is another key, and no damage.
	own := "key \"acme\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0\";\n};\n"
	if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, damage, err := secret(dir, k); err != nil || damage != "" || s.Secret != "c2VjcmV0" {
		t.Errorf("a key of tsig-keygen: %+v %q %v", s, damage, err)
	}
	k.Algorithm = "hmac-sha512"
	if s, damage, err := secret(dir, k); err != nil || damage != "" || s.Algorithm != k.Algorithm || s.Secret == "c2VjcmV0" {
		t.Errorf("another algorithm: %q %v", damage, err)
	}
}
