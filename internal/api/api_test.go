package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake is a daemon that remembers what it was asked.
type fake struct {
	mu      sync.Mutex
	status  Status
	changed chan struct{}
	asked   []string
	err     error
}

func (f *fake) ask(what string) (Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	return Outcome{Plan: []byte("{}"), Text: what}, f.err
}

func (f *fake) set(s Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = s
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) Status(context.Context) (Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, nil
}

func (f *fake) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}
func (f *fake) Leases(context.Context) ([]Lease, error) {
	return []Lease{{LAN: "home", Address: "10.0.0.5"}}, nil
}
func (f *fake) Why(_ context.Context, from, to, protocol string) (Why, error) {
	return Why{From: from, To: to, Protocol: protocol, Ways: []Way{}}, nil
}
func (f *fake) InForce(_ context.Context, back int) ([]Source, error) {
	return []Source{{Name: "a.hcl", Text: strings.Repeat("x", back)}}, nil
}
func (f *fake) History(context.Context) ([]Past, error) { return []Past{{Back: 0}, {Back: 1}}, nil }
func (f *fake) Confirm(_ context.Context, who string) (File, error) {
	_, err := f.ask("confirm by " + who)
	return File{From: "/etc/a"}, err
}
func (f *fake) Plan(_ context.Context, c Change) (Outcome, error)  { return f.ask("plan " + c.From) }
func (f *fake) Apply(_ context.Context, c Change) (Outcome, error) { return f.ask("apply " + c.From) }
func (f *fake) Rollback(context.Context, Change) (Outcome, error)  { return f.ask("rollback") }
func (f *fake) Use(_ context.Context, c Choice) (Used, error) {
	_, err := f.ask("use " + c.WAN + " by " + c.By)
	return Used{IPv4: Use{WAN: c.WAN}, Choice: &c}, err
}
func (f *fake) Down(context.Context) error { _, err := f.ask("down"); return err }
func (f *fake) Refused(_ context.Context, _ bool, each func(Refused) error) error {
	return each(Refused{Rule: "block tv"})
}
func (f *fake) Asked(_ context.Context, follow bool, each func(Asked) error) error {
	if !follow {
		return &Error{409, Problem{Title: "they are not kept"}}
	}
	return each(Asked{Name: "www.example.com"})
}

func (f *fake) Traffic(_ context.Context, q TrafficQuery, each func(Traffic) error) error {
	f.asked = append(f.asked, fmt.Sprintf("%+v", q))
	for i := 1; i == 1 || q.Watch && i <= 3; i++ {
		if err := each(Traffic{HostCount: i, FlowCount: q.Most}); err != nil {
			return err
		}
	}
	return f.err
}

// serve answers for f on a socket and returns a client of it.
func serve(t *testing.T, f *fake) *Client {
	t.Helper()
	f.changed = make(chan struct{})
	dir := t.TempDir()
	l, err := Listen(dir, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: Handler(f), ConnContext: Peer}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return NewClient(filepath.Join(dir, SocketName))
}

func TestEachQuestionReachesTheDaemonAndItsAnswerComesBack(t *testing.T) {
	me := who(context.WithValue(t.Context(), peerKey{}, uint32(os.Getuid())), "")
	f := &fake{status: Status{Gateway: "gw", IPv4: Use{WAN: "fiber"}}}
	c, ctx := serve(t, f), t.Context()
	if s, err := c.Status(ctx); err != nil || s.Gateway != "gw" || s.IPv4.WAN != "fiber" {
		t.Errorf("status: %+v, %v", s, err)
	}
	if l, err := c.Leases(ctx); err != nil || len(l) != 1 || l[0].Address != "10.0.0.5" {
		t.Errorf("leases: %+v, %v", l, err)
	}
	if w, err := c.Why(ctx, "host.a&b", "[2001:db8::1]:443", "udp"); err != nil || w.From != "host.a&b" || w.To != "[2001:db8::1]:443" || w.Protocol != "udp" {
		t.Errorf("why: %+v, %v", w, err)
	}
	if s, err := c.InForce(ctx, 3); err != nil || len(s) != 1 || s[0].Text != "xxx" {
		t.Errorf("file: %+v, %v", s, err)
	}
	for _, q := range []struct {
		want string
		ask  func(context.Context, Change) (Outcome, error)
	}{{"plan /etc/a", c.Plan}, {"apply /etc/a", c.Apply}, {"rollback", c.Rollback}} {
		if o, err := q.ask(ctx, Change{From: "/etc/a", Files: []Source{{Name: "a"}}}); err != nil || o.Text != q.want {
			t.Errorf("%s: %+v, %v", q.want, o, err)
		}
	}
	if u, err := c.Use(ctx, Choice{WAN: "lte", By: "ann"}); err != nil || u.IPv4.WAN != "lte" || u.Choice == nil || os.Getuid() == 0 && u.Choice.By != "ann" {
		t.Errorf("use: %+v, %v", u, err)
	}
	if h, err := c.History(ctx); err != nil || len(h) != 2 || h[1].Back != 1 {
		t.Errorf("history: %+v, %v", h, err)
	}
	if f, err := c.Confirm(ctx); err != nil || f.From != "/etc/a" {
		t.Errorf("confirm: %+v, %v", f, err)
	}
	var seen []string
	if err := c.Refused(ctx, false, func(r Refused) error { seen = append(seen, r.Rule); return nil }); err != nil {
		t.Error(err)
	}
	if err := c.Asked(ctx, true, func(a Asked) error { seen = append(seen, a.Name); return nil }); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"block tv", "www.example.com"}, seen); d != "" {
		t.Error(d)
	}
	if err := c.Asked(ctx, false, func(Asked) error { return nil }); err == nil || err.Error() != "they are not kept" {
		t.Errorf("names that are not kept: %v", err)
	}
	if err := c.Down(ctx); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"plan /etc/a", "apply /etc/a", "rollback", "use lte by ann", "confirm by " + me, "down"}, f.asked); d != "" {
		t.Error(d)
	}
}

func TestTrafficIsAskedForAsItIsWanted(t *testing.T) {
	f := &fake{}
	c := serve(t, f)
	for _, q := range []struct {
		TrafficQuery
		want  string
		times int
	}{
		{TrafficQuery{}, "{Watch:false Every:2s Most:20 Sort:rate}", 1},
		{TrafficQuery{Watch: true, Every: 1500 * time.Millisecond, Most: 1000, Sort: "packets"}, "{Watch:true Every:1.5s Most:1000 Sort:packets}", 3},
		{TrafficQuery{Every: MinTrafficEvery, Most: 1, Sort: "total"}, "{Watch:false Every:500ms Most:1 Sort:total}", 1},
		{TrafficQuery{Every: time.Hour}, "{Watch:false Every:1h0m0s Most:20 Sort:rate}", 1},
	} {
		f.asked = nil
		times := 0
		if err := c.Traffic(t.Context(), q.TrafficQuery, func(a Traffic) error {
			if times++; a.HostCount != times || a.FlowCount != max(q.Most, 1) && q.Most != 0 {
				t.Errorf("%s: number %d is %+v", q.want, times, a)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{q.want}, f.asked); d != "" || times != q.times {
			t.Errorf("told %d times, want %d; -want +got\n%s", times, q.times, d)
		}
	}
	for path, want := range map[string]string{
		"n=0&sort=size&interval_s=x": "interval_s=x is no interval: 0.5 to 3600\nn=0 is not how many are to be listed: 1 to 1000\nnothing is sorted by \"size\": rate, down, up, packets, total",
		"interval_s=0.4":             "an interval of 400ms is not within 500ms and 1h0m0s",
		"interval_s=0":               "interval_s=0 is no interval: 0.5 to 3600",
		"interval_s=NaN":             "interval_s=NaN is no interval: 0.5 to 3600",
		"interval_s=1e300":           "interval_s=1e300 is no interval: 0.5 to 3600",
		"interval_s=1e-300":          "an interval of 1ns is not within 500ms and 1h0m0s",
		"n=1001":                     "1001 can't be listed: 1 to 1000",
		"m=3":                        "m says nothing here",
	} {
		f.asked = nil
		err := lines(t.Context(), c, "/v1/traffic?"+path, func(Traffic) error { return nil })
		var got *Error
		if !errors.As(err, &got) || got.Status != http.StatusBadRequest || got.Title != want || f.asked != nil {
			t.Errorf("%s: %v, want %s (asked %v)", path, err, want, f.asked)
		}
	}
}

func TestWhatTheDaemonRefusesComesBackWhole(t *testing.T) {
	want := Problem{Title: "the file is wrong", Diagnostics: "a.hcl:1,1-2: no\n"}
	c := serve(t, &fake{err: &Error{http.StatusUnprocessableEntity, want}})
	_, err := c.Apply(t.Context(), Change{Files: []Source{{Name: "a"}}})
	var got *Error
	if !errors.As(err, &got) || got.Status != http.StatusUnprocessableEntity || got.Problem != want {
		t.Errorf("apply: %#v", err)
	}
	c = serve(t, &fake{err: errors.New("add route: network is unreachable")})
	if err := c.Down(t.Context()); !errors.As(err, &got) || got.Status != 500 || got.Title != "add route: network is unreachable" {
		t.Errorf("down: %#v", err)
	}
}

func TestWatchSendsNowAndAfterEachChange(t *testing.T) {
	f := &fake{status: Status{Gateway: "one"}}
	c := serve(t, f)
	ctx, stop := context.WithCancel(t.Context())
	var seen []string
	err := c.WatchStatus(ctx, func(s Status) error {
		seen = append(seen, s.Gateway)
		switch len(seen) {
		case 1:
			f.set(Status{Gateway: "two"})
		case 2:
			stop()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"one", "two"}, seen); d != "" {
		t.Error(d)
	}
}

func TestARequestThatIsNoChange(t *testing.T) {
	f := &fake{}
	c := serve(t, f)
	const file = `"files":[{"name":"a","text":""}]`
	for _, wrong := range []struct{ path, body, says string }{
		{"apply", `{"from":"a","cut_of":true}`, "cut_of"},
		{"apply", ``, "EOF"},
		{"apply", `null`, "files is missing"},
		{"plan", `{"from":"a","files":[]}`, "files is missing"},
		{"plan", `{` + file + `} {` + file + `}`, "something follows it"},
		{"apply", `{` + file + `}` + strings.Repeat(" ", maxBody), "something follows it"},
	} {
		r, err := c.http.Post("http://weir/v1/"+wrong.path, "application/json", strings.NewReader(wrong.body))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), wrong.says) || len(f.asked) != 0 {
			t.Errorf("%s %.60s: %s: %s; the daemon was asked %q", wrong.path, wrong.body, r.Status, body, f.asked)
		}
	}
}

func TestListen(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir := filepath.Join(t.TempDir(), "run")
	l, err := Listen(dir, "", log)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, SocketName)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o660 || fi.Mode().Type() != os.ModeSocket {
		t.Errorf("%v, %v", fi, err)
	}
	if _, err := Listen(dir, "", log); !errors.Is(err, ErrRunning) {
		t.Errorf("a second daemon on the same socket: %v", err)
	}
	l.Close() // as a kill leaves it: the file stays
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("nobody listens: %v", err)
	}
	l, err = Listen(dir, "", log)
	if err != nil {
		t.Fatalf("after a killed daemon: %v", err)
	}
	l.Close()
	if _, err := Listen(t.TempDir(), "no-such-group", log); err == nil || !strings.Contains(err.Error(), "no-such-group") {
		t.Errorf("a group that does not exist: %v", err)
	}
	if _, err := NewClient(filepath.Join(dir, "nowhere")).Leases(t.Context()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("no socket: %v", err)
	}
}

func TestWhoAnswersNoHTTPIsSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, "hello\n")
		c.Close()
	}()
	if _, err := NewClient(path).Status(t.Context()); err == nil || errors.Is(err, ErrNoDaemon) {
		t.Errorf("got %v", err)
	}
}
