package blocklist

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/state"
)

// newKeeper is a keeper whose web is the test's.
func newKeeper(web map[string]string) (*keeper, *int) {
	asked := 0
	return &keeper{fetch: func(_ context.Context, url, file string, old validators) (validators, bool, error) {
		asked++
		text, ok := web[url]
		switch {
		case !ok:
			return old, false, errors.New("404")
		case old.ETag == text:
			return old, false, nil
		}
		return validators{ETag: text}, true, os.WriteFile(file, []byte(text), 0o644)
	}}, &asked
}

func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lists")
	now := state.Clock{Wall: time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC), Up: time.Hour}
	pass := func(d time.Duration) { now.Wall, now.Up = now.Wall.Add(d), now.Up+d }
	const url = "https://lists.example.org/x"
	web := map[string]string{url: "ads.example\n"}
	c := Config{Dir: dir, Lists: []List{{Name: "ads", Sources: []string{url}, Refresh: 24 * time.Hour}}}
	k, asked := newKeeper(web)
	step := func(want string, fetches int) {
		t.Helper()
		*asked = 0
		k.work(t.Context(), now)
		b, err := os.ReadFile(filepath.Join(dir, NamesFile("ads")))
		if got := strings.Join(strings.Fields(string(b)), " "); err != nil || got != want || *asked != fetches {
			t.Errorf("%+v: the list is %q after %d fetches, want %q after %d (%v; %s)", now, got, *asked, want, fetches, err, k.states[0].Err)
		}
	}
	if err := k.take(c, now); err != nil {
		t.Fatal(err)
	}
	step("ads.example", 1)
	if s := k.states[0]; s.Names != 1 || s.Err != "" || !s.Updated.Equal(now.Wall) {
		t.Errorf("%+v", s)
	}
	step("ads.example", 0)
	// Whoever sets the clock brings no day about.
	now.Wall = now.Wall.Add(300 * 24 * time.Hour)
	pass(24*time.Hour - 24*time.Hour/10 - time.Second)
	step("ads.example", 0)
	if next := k.next(now.Up); next <= 0 || next > lateBy {
		t.Errorf("looks again after %v", next)
	}
	now.Wall = now.Wall.Add(-300 * 24 * time.Hour)
	pass(24 * time.Hour / 10)
	step("ads.example", 1) // unchanged
	web[url] = "two.example\n"
	pass(24 * time.Hour)
	if next := k.next(now.Up); next != 0 {
		t.Errorf("due, and looks again after %v", next)
	}
	step("two.example", 1)
	for _, wrong := range []string{"<html>", "", "this is\nno list\n"} {
		web[url] = wrong
		pass(24 * time.Hour)
		step("two.example", 1)
		if k.states[0].Err == "" {
			t.Errorf("nobody is told of %q", wrong)
		}
	}
	delete(web, url)
	pass(maxRetry)
	step("two.example", 1)
	pass(firstRetry)
	step("two.example", 0) // the fourth failure in a row waits longer

	// What is let through is another list, without asking anybody.
	c.Lists[0].Allow = []string{"two.example"}
	if err := k.take(c, now); err != nil {
		t.Fatal(err)
	}
	step("", 0)
	c.Lists[0].Allow = nil

	// Another line: it is tried at once.
	web[url] = "three.example\n"
	c.Via = "lte"
	if err := k.take(c, now); err != nil {
		t.Fatal(err)
	}
	step("three.example", 1)

	// Another process, without internet, and with a clock that is years off.
	delete(web, url)
	now = state.Clock{Wall: time.Date(1970, 1, 1, 0, 0, 10, 0, time.UTC), Up: 10 * time.Second}
	k, asked = newKeeper(web)
	if err := k.take(c, now); err != nil {
		t.Fatal(err)
	}
	step("three.example", 1)
	if k.states[0].Version == "" || k.states[0].Err == "" {
		t.Errorf("%+v", k.states[0])
	}

	// A list that the file has no more leaves nothing behind.
	if err := k.take(Config{Dir: dir}, now); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestFetchSlowly: a server that does not go on holds up nobody for ever, and
// another configuration ends it.
func TestFetchSlowly(t *testing.T) {
	began := make(chan struct{})
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("ads.example\n"))
		w.(http.Flusher).Flush()
		close(began)
		<-r.Context().Done()
		close(over)
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	file := filepath.Join(t.TempDir(), "x")
	if _, _, err := fetch(ctx, client("127.0.0.1:1"), srv.URL, file, validators{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-over
	if there, err := os.ReadDir(filepath.Dir(file)); err != nil || len(there) > 0 {
		t.Errorf("half a list is left: %v %v", there, err)
	}
}

func TestFetchFromHTTPS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ads.example\n")) }))
	defer plain.Close()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) }))
	defer srv.Close()
	c := client("127.0.0.1:1")
	file := filepath.Join(t.TempDir(), "x")
	if _, _, err := fetch(t.Context(), c, srv.URL, file, validators{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody knows: %v", err)
	}
	c.Transport = srv.Client().Transport
	if _, _, err := fetch(t.Context(), c, srv.URL, file, validators{}); err == nil || !strings.Contains(err.Error(), "away from https") {
		t.Errorf("a redirection to http: %v", err)
	}
}
