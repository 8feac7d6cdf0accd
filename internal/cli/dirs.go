package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"weir/internal/api"
)

// dirs are where a weir keeps things. Two weirs on one machine, each in a network
// namespace of its own, need two of each.
type dirs struct{ state, runtime string }

func (d *dirs) flags(c *cobra.Command) {
	d.runtimeFlag(c)
	c.Flags().StringVar(&d.state, "state-dir", "/var/lib/weir", "folder `DIR` for leases and the file in force")
	_ = c.MarkFlagDirname("state-dir") // only completion would miss it
}

func (d *dirs) runtimeFlag(c *cobra.Command) {
	c.Flags().StringVar(&d.runtime, "runtime-dir", "/run/weir", "folder `DIR` with the daemon's socket")
	_ = c.MarkFlagDirname("runtime-dir")
}

func (d *dirs) client() *api.Client {
	return api.NewClient(filepath.Join(d.runtime, api.SocketName))
}
