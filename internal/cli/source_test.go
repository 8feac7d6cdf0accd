package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSourceEnds waits for a pipe that nobody writes to, or never closes, until it
// is told to stop.
func TestSourceEnds(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.hcl")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written=%t", written), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if written { // open for both: it never ends
				w, err := os.OpenFile(pipe, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				if _, err := w.WriteString(`lan "home" {`); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, 1)
			go func() {
				_, err := readSource(ctx, pipe)
				done <- err
			}()
			cancel()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), "had not ended") {
					t.Errorf("the error is %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("it goes on reading")
			}
		})
	}
}

// TestSourcePipe reads what a shell's <(...) is.
func TestSourcePipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("# text\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := readSource(t.Context(), fmt.Sprintf("/dev/fd/%d", r.Fd()))
	if err != nil || string(files[0].Src) != "# text\n" {
		t.Errorf("%+v, %v", files, err)
	}
}

// TestSourceWrong names things that hold no text: each is wrong input, and says
// what it is.
func TestSourceWrong(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"hidden", "inner", "inner/a.hcl", "pipe", "dangling"} {
		if err := os.Mkdir(at(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sock, err := net.Listen("unix", at("sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	large, err := os.Create(at("large.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(large.Truncate(1<<40), large.Close(), os.WriteFile(at("file"), nil, 0o600),
		unix.Mkfifo(at("pipe/a.hcl"), 0o600),
		os.WriteFile(at("hidden/.#a.hcl"), nil, 0o600),
		os.Symlink("nowhere", at("dangling/a.hcl")),
		os.Symlink("loop", at("loop")),
	); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{"", "name is empty"},
		{" ", "name is empty"},
		{at("nowhere"), "there is no file"},
		{at("file/a"), "not a directory"},
		{at("loop"), "too many levels"},
		{at("sock"), "is a socket"},
		{"/dev/zero", "is a device"},
		{"/dev/null", "is a device"},
		{at("large.hcl"), "larger than 2 MiB"},
		{at("inner"), "a.hcl is a folder"},
		{at("pipe"), "a.hcl is a pipe"},
		{at("dangling"), "a.hcl: no such file"},
		{at("hidden"), "no *.hcl is in the folder"},
	} {
		_, err := readSource(t.Context(), c.path)
		var s *status
		if !errors.As(err, &s) || s.code != exitWrong || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q as wrong input", c.path, err, c.want)
		}
	}
}

// TestSourceFolder reads a folder's files in name order, whatever the folder is
// called, and not what editors leave beside them.
func TestSourceFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a[b]*\c`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("somebody@host.1", filepath.Join(dir, ".#10-lines.hcl")); err != nil { // Emacs, while it is edited
		t.Fatal(err)
	}
	for _, name := range []string{"20-home.hcl", "10-lines.hcl", ".10-lines.hcl.swp", "10-lines.hcl~", "10-lines.hcl.dpkg-old", ".hidden.hcl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := readSource(t.Context(), dir)
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f.Name)+"="+string(f.Src))
	}
	if got := strings.Join(names, " "); err != nil || got != "10-lines.hcl=10-lines.hcl 20-home.hcl=20-home.hcl" {
		t.Errorf("%s, %v", got, err)
	}
}
