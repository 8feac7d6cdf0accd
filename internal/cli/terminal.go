package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// keysOf takes the keys of a terminal one by one, without echo, until restore is
// called. keys is nil if f is none; ^C goes on being a signal.
func keysOf(f *os.File) (keys <-chan byte, restore func(), err error) {
	if !onTerminal(f) {
		return nil, func() {}, nil
	}
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, nil, err
	}
	raw := *before
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, nil, err
	}
	c := make(chan byte)
	go func() { // ends with the process: a read of a terminal can't be broken off
		defer close(c)
		b := make([]byte, 1)
		for {
			if n, err := f.Read(b); n == 0 || err != nil {
				return
			}
			c <- b[0]
		}
	}()
	return c, func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

// sizeOf are a terminal's columns and rows; 0: it does not say.
func sizeOf(f *os.File) (width, height int) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(ws.Col), int(ws.Row)
}

// redraw puts text on a terminal in the place of what stood there, line by line, so
// that nothing flickers.
func redraw(w io.Writer, text string) error {
	lines := strings.Split(strings.TrimSuffix(visible(text), "\n"), "\n")
	_, err := io.WriteString(w, "\x1b[H"+strings.Join(lines, "\x1b[K\n")+"\x1b[K\x1b[J")
	return err
}
