package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// native is the byte order of rtnetlink: the machine's. nfnetlink's attributes
// are big-endian.
var native = binary.NativeEndian

// errInterrupted says that what was dumped changed meanwhile.
var errInterrupted = errors.New("what was read kept changing")

// dump asks for a whole list. A dump that was interrupted by a change is taken
// again, a few times.
func dump(c *netlink.Conn, typ netlink.HeaderType, data []byte) ([]netlink.Message, error) {
	for range 10 {
		msgs, err := c.Execute(netlink.Message{
			Header: netlink.Header{Type: typ, Flags: netlink.Request | netlink.Dump},
			Data:   data,
		})
		if err != nil {
			return nil, kernelError(err)
		}
		whole := true
		for _, m := range msgs {
			whole = whole && m.Header.Flags&netlink.DumpInterrupted == 0
		}
		if whole {
			return msgs, nil
		}
	}
	return nil, errInterrupted
}

// request sends one request that changes something, on one of the namespace's
// sockets, and waits until the kernel has done it.
func (s *space) request(c *netlink.Conn, typ netlink.HeaderType, flags netlink.HeaderFlags, data []byte) error {
	return s.writes.do(fmt.Sprintf("netlink message %d", typ), func() error {
		_, err := c.Execute(netlink.Message{
			Header: netlink.Header{Type: typ, Flags: netlink.Request | netlink.Acknowledge | flags},
			Data:   data,
		})
		return kernelError(err)
	})
}

// writer carries out one change of the kernel, by calling do, or not. Tests have
// their own, to make any of them fail; nil is the real one.
type writer func(what string, do func() error) error

func (w writer) do(what string, do func() error) error {
	if w == nil {
		return do()
	}
	return w(what, do)
}

// ask sends one request and returns the answers.
func ask(c *netlink.Conn, typ netlink.HeaderType, data []byte) ([]netlink.Message, error) {
	msgs, err := c.Execute(netlink.Message{Header: netlink.Header{Type: typ, Flags: netlink.Request}, Data: data})
	return msgs, kernelError(err)
}

// kernelError keeps the error number and the kernel's own words, and drops the
// library's.
func kernelError(err error) error {
	var op *netlink.OpError
	if !errors.As(err, &op) {
		return err
	}
	if op.Message != "" {
		return fmt.Errorf("%w (%s)", op.Err, op.Message)
	}
	return op.Err
}

// attrs encodes attributes in the machine's byte order.
func attrs(f func(e *netlink.AttributeEncoder)) ([]byte, error) {
	e := netlink.NewAttributeEncoder()
	f(e)
	return e.Encode()
}

// decode calls f for each attribute of b.
func decode(b []byte, f func(d *netlink.AttributeDecoder)) error {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return err
	}
	for d.Next() {
		f(d)
	}
	return d.Err()
}

// short says that a message ended before its header did.
func short(what string, b []byte) error {
	return fmt.Errorf("%s of %d bytes from the kernel is too short: %w", what, len(b), unix.EBADMSG)
}
