package gateway

import (
	"fmt"
	"net"
	"strings"
)

// notify tells the service manager whose socket is named in path (the variable
// NOTIFY_SOCKET, sd_notify(3)) how the daemon is: "READY=1", "STATUS=...". With no
// path nobody asked.
func notify(path string, lines ...string) error {
	if path == "" {
		return nil
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:] // an abstract socket
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager %q: %w", lines[0], err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("tell the service manager %q: %w", lines[0], err)
	}
	return nil
}
