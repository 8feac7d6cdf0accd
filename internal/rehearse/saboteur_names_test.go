package rehearse_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
	"weir/internal/named"
	"weir/internal/netns/netnstest"
	"weir/internal/rehearse"
)

const bind = "testdata/bind.hcl"

// withList is that file with a list of names that are not resolved.
func withList(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(bind)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list := filepath.Join(dir, "ads")
	file := filepath.Join(dir, "bind.hcl")
	text = []byte(strings.Replace(string(text), "dns {\n", fmt.Sprintf("dns {\n  block_list \"ads\" { source = [%q, \"https://lists.example.net/hosts?all\", \"http://192.0.2.99:8081/x\"] }\n  key \"acme\" {\n    zone = \"example.org\"\n    secret_file = \"/nowhere/acme.key\"\n  }\n", list), 1))
	if err := errors.Join(os.WriteFile(list, []byte("0.0.0.0 ads.example.com\n"), 0o600), os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// needBIND skips t aloud where BIND is missing.
func needBIND(t *testing.T) {
	t.Helper()
	needLab(t)
	_, err := named.Find()
	if err == nil {
		_, err = exec.LookPath("nsupdate")
	}
	if err != nil {
		netnstest.Missing(t, "named", err)
	}
}

// TestNames: a file with all that BIND can do has it.
func TestNames(t *testing.T) {
	t.Parallel()
	needBIND(t)
	r := try(t, rehearse.Options{Only: []string{"name"}}, withList(t))
	want := []string{"name/home/blocked", "name/home/house", "name/home/rebinding", "name/home/records", "name/home/validated", "name/home/world"}
	var got []string
	for _, d := range r.Drills {
		got = append(got, d.Drill)
		if !d.OK {
			t.Errorf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("drills: %q, want %q", got, want)
	}
	// What is elsewhere is stood in for, which is said and leaves nothing out.
	var stood []string
	for _, o := range r.Omitted {
		if strings.HasPrefix(o.What, "block_list") || strings.HasPrefix(o.What, "key") {
			stood = append(stood, fmt.Sprint(o.What, " ", o.Part))
		}
	}
	if d := strings.Join(stood, ", "); d != "block_list ads false, block_list ads false, key acme false" {
		t.Errorf("stand-ins: %s", d)
	}
	for _, d := range r.Drills {
		if d.Drill == "name/home/blocked" && (len(d.Figures) != 1 || d.Figures[0].Value != 3) {
			t.Errorf("names of one file and two URLs are tried: %v", d.Figures)
		}
	}
}

// nameSaboteurs turn a drill of names red each, and no other.
func nameSaboteurs() rehearse.Saboteurs {
	return rehearse.Saboteurs{
		"name records": at(rehearse.Up, onGateway("sh", "-ec",
			`printf 'server 127.0.0.1\nzone example.org\nupdate delete example.org A\nsend\n' | nsupdate -k /run/lab/state/named/weir.key`)),
		"name validated": at(rehearse.Up, withConf("dnssec-validation yes;", "dnssec-validation no;")),
		"name rebinding": at(rehearse.Up, withConf("deny-answer-addresses {", "deny-answer-addresses { !any;")),
		"name blocked":   at(rehearse.Up, withConf(`zone "ads.list.weir" log no; `, "")),
	}
}

// withConf has named run by a configuration with something else in it.
func withConf(old, changed string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		const conf = "/run/lab/state/named/named.conf"
		var text []byte
		if !lab.Until(bg, 10*time.Second, func() bool { // the list takes a moment, and would undo what is done before
			text, _ = os.ReadFile(conf)
			return strings.Contains(string(text), old) && strings.Contains(string(text), "ads.list.weir")
		}) {
			return fmt.Errorf("named.conf has no %s", old)
		}
		changed := strings.NewReplacer(old, changed, "version none;", `version "changed";`).Replace(string(text))
		if err := os.WriteFile(conf, []byte(changed), 0o640); err != nil {
			return err
		}
		if _, err := b.Lab.Gateway().Run(bg, "pkill", "-HUP", "-f", "named -f .* -c "+conf); err != nil {
			return err
		}
		// It is taken in when the version is told.
		_, err := b.Lab.Gateway().Run(bg, "sh", "-ec",
			`for i in $(seq 100); do ! dig @127.0.0.1 +short +tries=1 version.bind CH TXT | grep -q changed || exit 0; sleep 0.1; done; exit 1`)
		return err
	}
}

func TestNameSaboteurs(t *testing.T) {
	t.Parallel()
	needBIND(t)
	for saboteur := range nameSaboteurs() {
		t.Run(saboteur, func(t *testing.T) {
			t.Parallel()
			want := []string{"name/home/" + strings.TrimPrefix(saboteur, "name ")}
			r := expect(t, rehearse.Options{Only: []string{"name"}, Sabotage: []string{saboteur}}, withList(t), want)
			if got := red(r); !slices.Equal(got, want) {
				t.Errorf("red: %q, want %q", got, want)
			}
		})
	}
}
