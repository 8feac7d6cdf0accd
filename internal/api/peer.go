package api

import (
	"context"
	"fmt"
	"net"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

type peerKey struct{}

// Peer is for http.Server.ConnContext: requests know who is at the far end of their
// connection, as the kernel says (unix(7), SO_PEERCRED).
func Peer(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, cred.Uid)
}

// who is the person at the far end: root may say who they are, before sudo, and
// others are who they are. "" if nothing is known.
func who(ctx context.Context, said string) string {
	uid, ok := ctx.Value(peerKey{}).(uint32)
	if ok && uid == 0 && said != "" {
		return said
	}
	if !ok {
		return ""
	}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", uid)
}
