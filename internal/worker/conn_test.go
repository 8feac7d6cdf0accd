package worker

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConnRefuses feeds a connection what a broken or hostile peer might send.
func TestConnRefuses(t *testing.T) {
	frame := func(size, files uint32, body string) []byte {
		b := binary.BigEndian.AppendUint32(nil, size)
		return append(binary.BigEndian.AppendUint32(b, files), body...)
	}
	for _, tt := range []struct {
		name string
		send []byte
		want string
	}{
		{"a byte over the most", frame(MaxMessage+1, 0, ""), "the most is 1048576"},
		{"as large as can be said", frame(0xffffffff, 0, ""), "the most is 1048576"},
		{"no JSON", frame(4, 0, "\x00\xff{}"), "decode a message"},
		{"another type", frame(2, 0, "[]"), "decode a message"},
		{"unknown field", frame(11, 0, `{"Other":1}`), "unknown field"},
		{"two values", frame(4, 0, "{}{}"), "something follows"},
		{"nested without end", frame(1<<20, 0, strings.Repeat("[", 1<<20)), "decode a message"},
		{"cut in the header", frame(2, 0, "")[:5], "unexpected EOF"},
		{"cut in the body", frame(9, 0, "{}"), "unexpected EOF"},
		{"files that did not come", frame(2, 1, "{}"), "with 1 files came"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, theirs, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = theirs.Write(tt.send) // the reader may hang up on us
				theirs.Close()
			}()
			var o order
			_, err = c.Recv(&o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Recv: %v, want something with %q", err, tt.want)
			}
			if _, err := c.Recv(&o); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Recv after that: %v, want a closed connection", err)
			}
		})
	}
}

func TestSendBounds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		v     any
		files int
		ok    bool
	}{
		{"the longest", order{Text: strings.Repeat("x", MaxMessage-len(`{"Do":"","Text":""}`))}, 0, true},
		{"one more", order{Text: strings.Repeat("x", MaxMessage-len(`{"Do":"","Text":""}`)+1)}, 0, false},
		{"the most files", order{}, MaxFiles, true},
		{"one more file", order{}, MaxFiles + 1, false},
		{"what JSON can't say", func() {}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, theirs, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			peer, err := newConn(theirs)
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			files := make([]*os.File, tt.files)
			for i := range files {
				files[i] = null
			}
			sent := make(chan error, 1)
			go func() { sent <- c.Send(tt.v, files...) }()
			var o order
			got, err := peer.Recv(&o)
			for _, f := range got {
				f.Close()
			}
			if serr := <-sent; (serr == nil) != tt.ok || (err == nil) != tt.ok {
				t.Fatalf("Send: %v, Recv: %v; want ok %v", serr, err, tt.ok)
			}
			if tt.ok && len(got) != tt.files {
				t.Errorf("%d files arrived, want %d", len(got), tt.files)
			}
			if !tt.ok && !errors.Is(err, io.EOF) {
				t.Errorf("the peer saw %v, want the end of the connection", err)
			}
		})
	}
}

// TestSendKeepsSocketsNonBlocking: os.File.Fd would make them block, and the
// mode is the socket's, so at the peer too.
func TestSendKeepsSocketsNonBlocking(t *testing.T) {
	c, theirs, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := newConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := c.Send(order{}, r); err != nil {
		t.Fatal(err)
	}
	var o order
	files, err := peer.Recv(&o)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	defer files[0].Close()
	fd, err := descriptor(files[0])
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("flags of the handed-over file: %#x, %v; want O_NONBLOCK", flags, err)
	}
}

func FuzzRecv(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 0, 0, 0, 0, '{', '}'})
	f.Add([]byte{0, 0x10, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, theirs, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			_, _ = theirs.Write(b)
			theirs.Close()
		}()
		for {
			var o order
			if _, err := c.Recv(&o); err != nil {
				return
			}
		}
	})
}
