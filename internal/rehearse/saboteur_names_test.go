package rehearse_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"weir/internal/named"
	"weir/internal/netns/netnstest"
	"weir/internal/rehearse"
)

const bind = "testdata/bind.hcl"

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
	r := try(t, rehearse.Options{Only: []string{"name"}}, bind)
	want := []string{"name/home/house", "name/home/records", "name/home/validated", "name/home/world"}
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
}

// nameSaboteurs turn a drill of names red each, and no other.
func nameSaboteurs() rehearse.Saboteurs {
	return rehearse.Saboteurs{
		"name records": at(rehearse.Up, onGateway("sh", "-ec",
			`printf 'server 127.0.0.1\nzone example.org\nupdate delete example.org A\nsend\n' | nsupdate -k /run/lab/state/named/weir.key`)),
		"name validated": at(rehearse.Up, believe),
	}
}

// believe has named believe all that it is told.
func believe(b *rehearse.Bench) error {
	const conf = "/run/lab/state/named/named.conf"
	text, err := os.ReadFile(conf)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(text), "dnssec-validation yes;", "dnssec-validation no;", 1)
	if changed == string(text) {
		return errors.New("named.conf says nothing of validation")
	}
	if err := os.WriteFile(conf, []byte(changed), 0o640); err != nil {
		return err
	}
	_, err = b.Lab.Gateway().Run(bg, "pkill", "-HUP", "-f", "named -f .* -c "+conf)
	return err
}

func TestNameSaboteurs(t *testing.T) {
	t.Parallel()
	needBIND(t)
	for saboteur := range nameSaboteurs() {
		t.Run(saboteur, func(t *testing.T) {
			t.Parallel()
			want := []string{"name/home/" + strings.TrimPrefix(saboteur, "name ")}
			r := expect(t, rehearse.Options{Only: []string{"name"}, Sabotage: []string{saboteur}}, bind, want)
			if got := red(r); !slices.Equal(got, want) {
				t.Errorf("red: %q, want %q", got, want)
			}
		})
	}
}
