package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/bare"
)

// The bounds of a message. A peer that goes beyond them loses the connection.
const (
	MaxMessage = 1 << 20 // bytes of JSON
	MaxFiles   = 128     // below the kernel's SCM_MAX_FD (253)
)

const headerLen = 8 // length of the JSON, number of files: big-endian uint32 each

// sendTimeout bounds how long Send waits for a peer that does not read.
const sendTimeout = 5 * time.Second

// Conn is one end of the connection between a parent and a child. Send may be
// called from any goroutine; Recv from one at a time.
//
// Every error ends the connection, since after it nobody knows where the next
// message starts: the other end sees io.EOF.
type Conn struct {
	sock *net.UnixConn
	raw  syscall.RawConn // of sock

	sendMu sync.Mutex

	failOnce sync.Once
	oob      []byte // Recv's

	onFail func(error) // called once, with the first error; nil: nobody asks
	onBeat func()      // called in Recv at each beat; nil: nobody asks
}

// pair returns the two ends of a connection: ours, and the file that becomes the
// child's fd 3.
func pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair for a child: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "worker")
	c, err := newConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return c, theirs, nil
}

// newConn makes a Conn of a unix stream socket and closes f.
func newConn(f *os.File) (*Conn, error) {
	c, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("take the connection to the other process: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the connection to the other process is a %T, no unix socket", c), c.Close())
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the connection to the other process: %w", err), u.Close())
	}
	return &Conn{sock: u, raw: raw, oob: make([]byte, unix.CmsgSpace(MaxFiles*4))}, nil
}

// Close ends the connection; a Recv that waits returns.
func (c *Conn) Close() error { return c.sock.Close() }

// fail ends the connection because of err, and returns err.
func (c *Conn) fail(err error) error {
	c.failOnce.Do(func() {
		if c.onFail != nil {
			c.onFail(err)
		}
	})
	_ = c.sock.Close() // err says more than a failing close
	return err
}

// Send sends v as JSON, and the files with it. The files stay open here; the
// peer has its own descriptors of the same sockets.
func (c *Conn) Send(v any, files ...*os.File) error {
	body, err := json.Marshal(v)
	if err != nil {
		return c.fail(fmt.Errorf("encode a %T for the other process: %w", v, err))
	}
	if len(body) > MaxMessage {
		return c.fail(fmt.Errorf("a %T of %d bytes for the other process: the most is %d", v, len(body), MaxMessage))
	}
	if len(files) > MaxFiles {
		return c.fail(fmt.Errorf("%d files with a %T for the other process: the most is %d", len(files), v, MaxFiles))
	}
	var header [headerLen]byte
	binary.BigEndian.PutUint32(header[:4], uint32(len(body)))
	binary.BigEndian.PutUint32(header[4:], uint32(len(files)))
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			if fds[i], err = descriptor(f); err != nil {
				return c.fail(fmt.Errorf("send %s with a %T to the other process: %w", f.Name(), v, err))
			}
		}
		rights = unix.UnixRights(fds...)
		defer runtime.KeepAlive(files)
	}

	if err := c.write(append(header[:], body...), rights); err != nil {
		return c.fail(fmt.Errorf("send a %T to the other process: %w", v, err))
	}
	return nil
}

// write sends a frame. Only one for which there is no room waits.
func (c *Conn) write(frame, rights []byte) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if rights == nil {
		n := 0
		var err error
		if cerr := c.raw.Control(func(fd uintptr) { n, err = bare.Write(int(fd), frame) }); cerr != nil {
			return cerr
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return err
		}
		if frame = frame[n:]; len(frame) == 0 {
			return nil
		}
	}
	if err := c.sock.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if rights != nil {
		// A stream socket never splits eight bytes: unix_stream_sendmsg takes them
		// as one buffer, and the files with it.
		if n, _, err := c.sock.WriteMsgUnix(frame[:headerLen], rights, nil); err != nil || n != headerLen {
			return errors.Join(err, short(n, headerLen))
		}
		frame = frame[headerLen:]
	}
	_, err := c.sock.Write(frame)
	return err
}

// descriptor is f.Fd without what that does besides: it makes the socket block,
// here and, since the mode belongs to the socket, at the peer.
func descriptor(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(n uintptr) { fd = int(n) })
	return fd, err
}

func short(n, want int) error {
	if n != want {
		return io.ErrShortWrite
	}
	return nil
}

// Recv waits for the next message, decodes it into the value that into points
// at, and returns the files that came with it, which are the caller's to close.
// The error is io.EOF when the other end closed the connection between two
// messages. A field that into does not have is an error.
func (c *Conn) Recv(into any) ([]*os.File, error) {
	m, err := c.recv()
	if err != nil {
		return nil, err
	}
	if err := m.Decode(into); err != nil {
		m.Close()
		return nil, c.fail(err)
	}
	return m.Files, nil
}

// A Message is what came over a Conn. Its files are the receiver's to close.
type Message struct {
	body  []byte
	Files []*os.File
}

// Decode decodes the message into the value that into points at. A field that
// it does not have is an error: both ends are the same binary.
func (m Message) Decode(into any) error {
	d := json.NewDecoder(bytes.NewReader(m.body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode a message of the other process as %T: %w", into, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("decode a message of the other process as %T: something follows the value", into)
	}
	return nil
}

// Close closes the files that came with the message.
func (m Message) Close() {
	for _, f := range m.Files {
		_ = f.Close() // sockets; there is nothing to lose
	}
}

// beat sends an empty frame, which is no message: a sign of life, or the wish for one.
func (c *Conn) beat() error {
	if err := c.write(make([]byte, headerLen), nil); err != nil {
		return c.fail(fmt.Errorf("send a sign of life to the other process: %w", err))
	}
	return nil
}

// recv waits for the next message, and hears the beats before it.
func (c *Conn) recv() (Message, error) {
	for {
		m, err := c.frame()
		if err != nil || len(m.body) > 0 || len(m.Files) > 0 {
			return m, err
		}
		if c.onBeat != nil {
			c.onBeat()
		}
	}
}

func (c *Conn) frame() (m Message, err error) {
	defer func() {
		if err != nil {
			m.Close()
			m = Message{}
			_ = c.fail(err)
		}
	}()
	var header [headerLen]byte
	for at := 0; at < headerLen; {
		got, err := c.read(header[at:], c.oob)
		switch {
		case err != nil:
			return m, fmt.Errorf("receive from the other process: %w", err)
		case got.N == 0 && at == 0:
			return m, io.EOF
		case got.N == 0:
			return m, fmt.Errorf("receive from the other process: %w", io.ErrUnexpectedEOF)
		}
		files, err := filesOf(c.oob[:got.OOBN])
		m.Files = append(m.Files, files...)
		if err != nil {
			return m, err
		}
		if got.Flags&unix.MSG_CTRUNC != 0 {
			return m, errors.New("receive from the other process: files were lost on the way: is the limit of open files reached?")
		}
		at += got.N
	}
	size, files := binary.BigEndian.Uint32(header[:4]), binary.BigEndian.Uint32(header[4:])
	if size > MaxMessage {
		return m, fmt.Errorf("a message of %d bytes came from the other process: the most is %d", size, MaxMessage)
	}
	if int64(files) != int64(len(m.Files)) {
		return m, fmt.Errorf("a message with %d files came from the other process with %d", files, len(m.Files))
	}
	m.body = make([]byte, size)
	for rest := m.body; len(rest) > 0; {
		got, err := c.read(rest, nil)
		if got.N == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return m, fmt.Errorf("receive %d bytes from the other process: %w", size, err)
		}
		rest = rest[got.N:]
	}
	return m, nil
}

// read waits for bytes, and the files with them; none is the end.
func (c *Conn) read(b, oob []byte) (m bare.Msg, err error) {
	cerr := c.raw.Read(func(fd uintptr) bool {
		m, err = bare.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	if cerr != nil {
		err = cerr // it was closed meanwhile
	}
	return m, err
}

// filesOf takes the descriptors out of a control message.
func filesOf(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	cmsgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read the files that came from the other process: %w", err)
	}
	var files []*os.File
	for i := range cmsgs {
		if cmsgs[i].Header.Level != unix.SOL_SOCKET || cmsgs[i].Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&cmsgs[i])
		if err != nil {
			return files, fmt.Errorf("read the files that came from the other process: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), fmt.Sprintf("received-%d", fd)))
		}
	}
	return files, nil
}
