package gateway

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/api"
)

// Whoever tidies /run takes the socket with it. It comes back, and a client that
// was connected stays so.
func TestKeepServing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "weir")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	listen := func() (net.Listener, error) { return api.Listen(dir, "", log) }
	path := filepath.Join(dir, api.SocketName)
	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })}
	go func() { _ = srv.Serve(l) }()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { keepServing(ctx, srv, path, listen, 10*time.Millisecond, log); close(done) }()
	t.Cleanup(func() { cancel(); <-done; _ = srv.Close() })

	client := func() *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}
	}
	ask := func(c *http.Client) error {
		r, err := c.Get("http://weir/")
		if err == nil {
			_, err = io.ReadAll(r.Body)
			_ = r.Body.Close()
		}
		return err
	}
	old := client()
	if err := ask(old); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ask(client()) != nil; {
		if time.Now().After(end) {
			t.Fatal("the socket did not come back")
		}
	}
	if err := ask(old); err != nil {
		t.Errorf("the client that was there before: %v", err)
	}
}
