package cases

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// shape is what of the chaos' house its edits change.
type shape struct {
	Wider    bool   // a third line, plugged into nothing
	Guest    bool   // a second LAN
	SSH      bool   // the gateway's own port 22 is open to the lines
	Web      uint16 // the lines' port that leads to the NAS; 0: none
	LTEFirst bool   // which line is preferred
	Fast     bool   // what lives is carried
	Quiet    bool   // the crowd's call is blocked
}

// text is the file.
func (s shape) text() string {
	prefer := "wan.fiber, wan.lte"
	if s.LTEFirst {
		prefer = "wan.lte, wan.fiber"
	}
	b := &strings.Builder{}
	fast := "off"
	if s.Fast {
		fast = "auto"
	}
	fmt.Fprintf(b, "gateway \"gw\" {\n  domain    = \"local\"\n  fast_path = %q\n}\n", fast)
	b.WriteString(`
dns { engine = "forward" }
wan "fiber" { interface = "eth1" }
wan "lte" {
  interface = "eth2"
  ipv6 { method = "none" }
}
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  dhcp { pool = "172.31.0.100-172.31.0.200" }
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = "172.31.0.23"
  }
}
`)
	// Without a hold-down, which grows: a line that answers is one to be used.
	fmt.Fprintf(b, "failover {\n  prefer    = [%s]\n  hold_down = \"0s\"\n  probe { target = [\"1.1.1.1\", \"8.8.8.8\"] }\n}\n", prefer)
	if s.Wider {
		b.WriteString("wan \"dsl\" { interface = \"eth5\" }\n")
	}
	if s.Guest {
		b.WriteString("lan \"guest\" {\n  interface = \"eth7\"\n  address   = \"172.30.0.1/24\"\n}\n")
	}
	if s.SSH {
		b.WriteString("allow \"ssh\" {\n  from     = wan\n  to       = self\n  protocol = \"tcp\"\n  port     = 22\n}\n")
	}
	if s.Quiet {
		b.WriteString("block \"call\" {\n  from = \"172.31.0.51\"\n  to   = wan\n}\n")
	}
	if s.Web != 0 {
		fmt.Fprintf(b, "forward \"web\" {\n  protocol = \"tcp\"\n  port     = %d\n  to       = host.nas\n}\n", s.Web)
	}
	return b.String()
}

// wrong is a file that a person may leave behind, and that can't be one.
func (s shape) wrong() string { return s.text() + "forward \"web2\" { to = host.nass }\n" }

// prefer is the lines, best first.
func (s shape) prefer() []string {
	if s.LTEFirst {
		return []string{"lte", "fiber"}
	}
	return []string{"fiber", "lte"}
}

// opens says whether a TCP port may answer who asks from outside. No UDP port may.
func (s shape) opens(port uint16) bool { return port == 22 && s.SSH || port != 0 && port == s.Web }

// edited is the house after one edit of its file.
func (s shape) edited(r *rand.Rand) shape {
	switch r.IntN(8) {
	case 0:
		s.Wider = !s.Wider
	case 1:
		s.Guest = !s.Guest
	case 2:
		s.SSH = !s.SSH
	case 3:
		webs := []uint16{0, 80, 8080}
		s.Web = webs[(slices.Index(webs, s.Web)+1+r.IntN(2))%3]
	case 4:
		s.LTEFirst = !s.LTEFirst
	case 5:
		s.Fast = !s.Fast
	default:
		s.Quiet = !s.Quiet
	}
	return s
}

// what an act is.
type what string

const (
	edit    what = "edit"    // another file is applied
	again   what = "again"   // the same one is
	wrong   what = "wrong"   // one that is refused
	trial   what = "trial"   // another one, to be confirmed
	fail    what = "fail"    // a line does
	mend    what = "mend"    // a line works again
	clients what = "clients" // come by DHCP, and ask the internet
	kill    what = "kill"    // of the daemon
	clock   what = "clock"   // is stepped, or the machine has slept
)

// act is one thing that happens to the house. Of its fields only those that its what has a use for are set.
type act struct {
	What    what
	To      shape         // edit, trial; kill: if it is to happen in an apply
	Applies bool          // kill: in an apply of To
	Confirm bool          // trial: by a person, else it is taken back
	Line    string        // fail, mend
	Fault   string        // fail: dark or unplugged
	From, N int           // clients: which
	Wall    time.Duration // clock, trial: a step of the clock
	Slept   time.Duration // clock, trial: of which only the time since the boot tells
	After   time.Duration // kill: after the apply began, or nothing
}

// String is what of it there is.
func (a act) String() string {
	b := &strings.Builder{}
	b.WriteString(string(a.What))
	v := reflect.ValueOf(a)
	for i := 1; i < v.NumField(); i++ {
		if f := v.Field(i); !f.IsZero() {
			fmt.Fprintf(b, " %s=%+v", v.Type().Field(i).Name, f)
		}
	}
	return b.String()
}

// chaosModel is what is to be true of the house once an act is over.
type chaosModel struct {
	Now   shape             // in force
	Dead  map[string]string // the fault of each line that has one
	Life  int               // acts since the daemon was killed
	Count map[what]int      // of acts
}

func newModel() chaosModel {
	return chaosModel{Now: shape{Web: 80, Fast: true}, Dead: map[string]string{}, Count: map[what]int{}}
}

// next draws what happens, of which the model is left. It depends on nothing but r and the model, so that a seed
// says all that happens and in which order, however fast the machine is.
func (m chaosModel) next(r *rand.Rand) (act, chaosModel) {
	m.Dead, m.Count = maps.Clone(m.Dead), maps.Clone(m.Count)
	kinds := []what{edit, edit, edit, edit, again, wrong, trial, trial, fail, fail, fail, clients, clients, clock}
	if len(m.Dead) > 0 {
		kinds = append(kinds, mend, mend, mend, mend)
	}
	// A daemon is to live long enough for a leak to show, and be killed often.
	if m.Life >= 12 {
		kinds = append(kinds, kill, kill)
	}
	a := act{What: kinds[r.IntN(len(kinds))]}
	lines := []string{"fiber", "lte"}
	years := func() time.Duration { return time.Duration(r.IntN(20*365)-10*365) * 24 * time.Hour }
	switch a.What {
	case edit:
		a.To = m.Now.edited(r)
		m.Now = a.To
	case trial:
		a.To, a.Confirm = m.Now.edited(r), r.IntN(2) == 0
		if r.IntN(2) == 0 {
			a.Wall = years()
		}
		if a.Confirm {
			m.Now = a.To
		} else if r.IntN(2) == 0 {
			a.Slept = 2 * time.Hour
		}
	case fail:
		a.Line, a.Fault = lines[r.IntN(2)], []string{"dark", "unplugged"}[r.IntN(2)]
		if m.Dead[a.Line] != "" {
			a.What, a.Fault = mend, ""
			delete(m.Dead, a.Line)
		} else {
			m.Dead[a.Line] = a.Fault
		}
	case mend:
		dead := slices.Sorted(maps.Keys(m.Dead))
		a.Line = dead[r.IntN(len(dead))]
		delete(m.Dead, a.Line)
	case clients:
		a.From, a.N = r.IntN(60), 1+r.IntN(4)
	case clock:
		a.Wall = years()
		if r.IntN(2) == 0 {
			a.Slept = time.Duration(r.IntN(48)) * time.Hour
		}
	case kill:
		if a.Applies = r.IntN(2) == 0; a.Applies {
			a.To = m.Now.edited(r)
			m.Now = a.To
		}
		a.After = time.Duration(r.IntN(600)) * time.Millisecond
		m.Life = 0
	}
	m.Life++
	m.Count[a.What]++
	return a, m
}

// TestChaosOfASeed: a seed says what happens; all of it happens; nothing is left out of the house.
func TestChaosOfASeed(t *testing.T) {
	run := func(seed uint64) (all []act, m chaosModel) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // what happens
		m = newModel()
		for range 400 {
			var a act
			a, m = m.next(r)
			all = append(all, a)
		}
		return all, m
	}
	one, m := run(1)
	if two, _ := run(1); !reflect.DeepEqual(one, two) {
		t.Error("the same seed, and something else happens")
	}
	if two, _ := run(2); reflect.DeepEqual(one, two) {
		t.Error("another seed, and the same happens")
	}
	for _, w := range []what{edit, again, wrong, trial, fail, mend, clients, kill, clock} {
		if m.Count[w] < 5 {
			t.Errorf("of 400 acts %d are %s", m.Count[w], w)
		}
	}
	seen := map[shape]bool{}
	for _, a := range one {
		seen[a.To] = true
	}
	if len(seen) < 20 {
		t.Errorf("%d houses are all that 400 acts make", len(seen))
	}
}
