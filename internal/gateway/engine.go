package gateway

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"weir/internal/config"
	"weir/internal/foreign"
	"weir/internal/named"
)

// startsInVain is how often BIND is started that never comes to answer, before
// the forwarder does in its place: names without validation are better than none.
const startsInVain = 3

// engine is who answers names by the file in force, as the loop has decided.
type engine struct {
	cfg    *config.Config // the file; nil: nothing is decided
	bind   bool
	failed bool // BIND did not start, so it does not answer
}

// useBIND tells whether BIND is to answer by the file in force. It is decided
// once for a file: what is installed later does not change a house by itself,
// unless the file has waited for it.
func (d *daemon) useBIND() bool {
	if d.engine.cfg != d.cfg {
		bind, _ := d.chooseEngine(d.cfg)
		d.engine = engine{cfg: d.cfg, bind: bind}
		if !bind && d.cfg.DNS.Engine == "auto" {
			d.log.Info("weir's own forwarder answers names; it does not validate them (DNSSEC), nor ask from the root on. BIND does, where it is installed: apt-get install bind9 (on Debian)")
		}
	}
	return !d.engine.failed && (d.engine.bind || d.cfg.NeedsBIND())
}

// chooseEngine says who answers by a file on this machine, and what is to be
// known about it.
func (d *daemon) chooseEngine(c *config.Config) (bind bool, notes []string) {
	_, err := named.Find()
	return chooseEngine(c, err, os.DirFS("/"), d.namedDir())
}

// chooseEngine: missing is why BIND is not there, dir where its files would be.
func chooseEngine(c *config.Config, missing error, root fs.FS, dir string) (bind bool, notes []string) {
	if !c.BIND(missing == nil) {
		return false, nil
	}
	if missing != nil {
		return false, []string{"dns: weir's own forwarder answers, and does not validate: " + missing.Error() + ". Zones, records, aliases, keys and domains of LANs are not there until then"}
	}
	if foreign.Confined(root, "named", dir) {
		notes = append(notes, fmt.Sprintf("dns: AppArmor keeps named from its files in %[1]s: write \"%[1]s/** rwk,\" to /etc/apparmor.d/local/usr.sbin.named, then apparmor_parser -r /etc/apparmor.d/usr.sbin.named", dir))
		if !c.NeedsBIND() {
			return false, append(notes, "dns: weir's own forwarder answers until then (or say engine = \"forward\")")
		}
	}
	if pid := otherNamed(root, dir); pid != 0 {
		notes = append(notes, fmt.Sprintf("dns: another named runs here, pid %d, and keeps the port: systemctl disable --now named (and mask it)", pid))
	}
	return true, notes
}

// startedNamed counts the starts of a BIND that has not answered yet. One that
// can't be had is given up until there is another file.
func (d *daemon) startedNamed(ctx context.Context, s *namedServer) {
	if s.starts++; s.starts <= startsInVain || s.worked || d.named != s || d.changing {
		return
	}
	why := s.status().LastError
	d.log.Error("BIND does not start: weir's own forwarder answers until there is another file", "err", why)
	d.notes = append(d.notes, "dns: weir's own forwarder answers, and does not validate, for BIND does not start: "+why+". `weir apply` tries it again")
	d.engine.failed = true
	d.changeEngine(ctx)
}
