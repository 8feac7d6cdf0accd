package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestSecretsAreHidden puts secrets into a file and breaks its syntax around
// them: whatever is said, and whichever line is quoted, none is shown. With -short
// at one place in seven.
func TestSecretsAreHidden(t *testing.T) {
	const secret = "swordfish"
	for _, s := range []string{
		`  psk = "swordfish"`,
		`  psk: "swordfish"`,
		`  wifi_password = swordfish`,
		`  pppoe { password = "swordfish" }`,
		`  psk "swordfish"`,
		"  private_key = <<X\n  swordfish\n  X",
		`  secret = ["x", "swordfish", { y = "swordfish" }] # my own`,
		`  token = "a" + "swordfish"`,
		`  key = f("swordfish")`,
		`  pin = "${swordfish}"`,
	} {
		src := "wan \"fiber\" {\n  interface = \"eth1\"\n" + s + "\n  mtu = \"x\"\n}\n"
		start := strings.Index(src, s)
		for i := range src {
			if start < i && i < start+len(s) || testing.Short() && i%7 != 0 {
				continue // within: the key itself would be another word
			}
			for _, add := range []string{"", `"`, "{", "}", "=", ":", "[", "\xff", "x y"} {
				broken := []byte(src[:i] + add + src[i:])
				if i == start+len(s) && slices.Contains([]string{"x y", "="}, add) {
					continue
				}
				files := []File{{Name: "x.hcl", Src: broken}}
				_, diags := Parse(files...)
				j, err := json.Marshal(diags)
				if err != nil {
					t.Fatal(err)
				}
				if out := diags.Format(files); strings.Contains(out, secret) || strings.Contains(string(j), secret) {
					t.Fatalf("shown, with %q at byte %d:\n%s\n%s\n%s", add, i, broken, out, j)
				}
				if h := string(hideSecrets(broken)); strings.Contains(h, secret) && !strings.Contains(s, "<<") {
					t.Fatalf("not hidden, with %q at byte %d:\n%s", add, i, h)
				}
			}
		}
	}
}

func TestWhatIsNoSecretIsShown(t *testing.T) {
	src := `tunnel "x" {
  public_key = "shown"
  psk_file   = "secrets/shown" # the key
  key "shown" { algorithm = "shown" }
  x          = key.shown
  monkey     = "shown"
}
`
	if got := string(hideSecrets([]byte(src))); got != src {
		t.Errorf("hidden:\n%s", got)
	}
}
