package worker

import (
	"fmt"
	"os"
)

// Passed says of a LAN how many of a message's files are its sockets: they replace
// those that it has. None: it keeps them.
type Passed struct {
	LAN   string
	Files int
}

// Ports are what a child has open on each LAN, a P each.
type Ports[P interface{ Stop() }] map[string]P

// Take makes the LANs those of a message, in the order of their files; open makes a P
// of those of the LAN with a number in lans, and has to close them if it can't. A LAN
// that is not among them is stopped. All files are closed that nobody took.
func (p Ports[P]) Take(lans []Passed, files []*os.File, open func(lan int, files []*os.File) (P, error)) error {
	defer func() {
		for _, f := range files {
			_ = f.Close() // a socket
		}
	}()
	served := map[string]bool{}
	for i, l := range lans {
		served[l.LAN] = true
		old, has := p[l.LAN]
		switch {
		case l.Files > len(files):
			return fmt.Errorf("LAN %s: of its %d sockets %d came with the message", l.LAN, l.Files, len(files))
		case l.Files == 0 && !has:
			return fmt.Errorf("LAN %s: no sockets came, and there are none", l.LAN)
		case l.Files == 0:
			continue
		case has:
			old.Stop()
			delete(p, l.LAN)
		}
		mine := files[:l.Files]
		files = files[l.Files:]
		n, err := open(i, mine)
		if err != nil {
			return err
		}
		p[l.LAN] = n
	}
	for name, old := range p {
		if !served[name] {
			old.Stop()
			delete(p, name)
		}
	}
	return nil
}

// Stop stops all.
func (p Ports[P]) Stop() {
	for _, port := range p {
		port.Stop()
	}
}
