package refused

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What linux/netfilter/nfnetlink_log.h has and x/sys/unix lacks.
const (
	msgPacket = unix.NFNL_SUBSYS_ULOG << 8   // NFULNL_MSG_PACKET
	msgConfig = unix.NFNL_SUBSYS_ULOG<<8 | 1 // NFULNL_MSG_CONFIG

	cfgCmd      = 1 // NFULA_CFG_CMD
	cfgMode     = 2 // NFULA_CFG_MODE
	cfgQThresh  = 5 // NFULA_CFG_QTHRESH
	cmdBind     = 1 // NFULNL_CFG_CMD_BIND
	copyPacket  = 2 // NFULNL_COPY_PACKET
	attrIn      = 4 // NFULA_IFINDEX_INDEV
	attrOut     = 5 // NFULA_IFINDEX_OUTDEV
	attrPayload = 9 // NFULA_PAYLOAD
	attrPrefix  = 10
)

// headLen is how much of a packet the kernel copies: IPv6 with some extension
// headers, and the ports.
const headLen = 128

const nfgenLen = 4 // struct nfgenmsg: family, version, res_id (the group)

// Open opens a socket that hears of the packets logged to a group, in the
// network namespace of the calling thread. It needs CAP_NET_ADMIN there. The
// error is unix.EPERM without it, and also if another socket has the group
// (nfnetlink_log.c, nfulnl_recv_config).
func Open(group uint16) (*os.File, error) {
	f, err := open(group)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("listen to nflog group %d: another program does already (ulogd?), or CAP_NET_ADMIN is missing: %w", group, err)
	case err != nil:
		return nil, fmt.Errorf("listen to nflog group %d: %w", group, err)
	}
	return f, nil
}

func open(group uint16) (f *os.File, err error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	ae.Uint8(cfgCmd, cmdBind)
	ae.Bytes(cfgMode, append(binary.BigEndian.AppendUint32(nil, headLen), copyPacket, 0)) // struct nfulnl_msg_config_mode
	ae.Uint32(cfgQThresh, 1)                                                              // tell of each at once
	attrs, err := ae.Encode()
	if err != nil {
		return nil, err
	}
	if err := request(c, group, attrs); err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(s uintptr) { fd, dupErr = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	return os.NewFile(uintptr(fd), "nflog"), nil
}

// request waits for the answer by itself: packets may come before it, and
// Conn.Execute takes them for a wrong answer.
func request(c *netlink.Conn, group uint16, attrs []byte) error {
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Send(netlink.Message{
		Header: netlink.Header{Type: msgConfig, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append(nfgen(group), attrs...),
	}); err != nil {
		return err
	}
	for {
		answers, err := c.Receive()
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Header.Type == netlink.Error {
				return nil // Receive has looked at its number
			}
		}
	}
}

func nfgen(group uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, 0}, group)
}

// parse reads what one read of the socket gave. Only packets whose prefix begins
// with prefix are returned; it is cut off.
func parse(b []byte, prefix string, now time.Time) ([]Packet, error) {
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, fmt.Errorf("read a message of nflog: %w", err)
	}
	var out []Packet
	for _, m := range msgs {
		if m.Header.Type != msgPacket || len(m.Data) < nfgenLen {
			continue
		}
		p, ok, err := parsePacket(m.Data[nfgenLen:], prefix, now)
		if err != nil {
			return out, err
		}
		if ok {
			out = append(out, p)
		}
	}
	return out, nil
}

func parsePacket(b []byte, prefix string, now time.Time) (p Packet, ok bool, err error) {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return Packet{}, false, fmt.Errorf("read a packet of nflog: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	p.At = now
	for ad.Next() {
		switch ad.Type() {
		case attrIn:
			p.InIndex = int(ad.Uint32())
		case attrOut:
			p.OutIndex = int(ad.Uint32())
		case attrPayload:
			p.headers(ad.Bytes())
		case attrPrefix:
			p.Rule, ok = strings.CutPrefix(clean(ad.String()), prefix)
		}
	}
	if err := ad.Err(); err != nil {
		return Packet{}, false, fmt.Errorf("read a packet of nflog: %w", err)
	}
	return p, ok, nil
}

// clean makes a name fit for a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}
