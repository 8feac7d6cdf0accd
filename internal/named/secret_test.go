package named

import (
	"errors"
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

// TestGivenSecret: a file that the house's file names is taken in each form that it may
// have, and what is wrong with it is said without what is in it.
func TestGivenSecret(t *testing.T) {
	const of = "key \"acme\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0\";\n};\n"
	path := filepath.Join(t.TempDir(), "key")
	for _, tt := range []struct {
		text string
		mode os.FileMode
		want string // of the error; "": none
	}{
		{of, 0o600, ""},
		{sealed(of), 0o400, ""},
		{"// made by hand\n" + strings.Replace(of, "acme", "ACME.", 1), 0o600, ""},
		{"c2VjcmV0", 0o600, ""},
		{" c2Vj\ncmV0\n", 0o600, ""},
		{of, 0o640, "chmod 600"},
		{of, 0o604, "chmod 600"},
		{"", 0o600, "neither"},
		{"c2VjcmV", 0o600, "neither"},
		{"key \"acme\" { algorithm hmac-sha256; secret \"\"; };", 0o600, "neither"},
		{of + of, 0o600, "neither"},
		{strings.Replace(sealed(of), "c2V", "c2W", 1), 0o600, "neither"},
		{strings.Replace(of, "acme", "other", 1), 0o600, `called "other"`},
		{strings.Replace(of, "256", "512", 1), 0o600, `algorithm = "hmac-sha512"`},
	} {
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(tt.text), tt.mode), os.Chmod(path, tt.mode)); err != nil {
			t.Fatal(err)
		}
		s, err := givenSecret(Key{Name: "acme", Algorithm: "hmac-sha256", Secret: path})
		switch {
		case tt.want == "" && (err != nil || s != secretKey{"acme", "hmac-sha256", "c2VjcmV0"}):
			t.Errorf("%q: %+v %v", tt.text, s, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "c2V")):
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}
