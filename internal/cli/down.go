package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/gateway"
)

func downCmd() *cobra.Command {
	var (
		d dirs
		f changeFlags
	)
	c := &cobra.Command{
		Use:   "down",
		Short: "Give the machine back as it was found",
		Long: `Asks, ends the running weir, if there is one, and takes apart what it made: namespaces,
cables, rules and tables go, interfaces, sysctls and the resolver are put back as they
were found. The house has no gateway then. Leases and the file in force stay stored for
the next "weir run".`,
		Example: `  weir down
  weir down --yes                # from a script: nobody is asked`,
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			if err := f.ask(c, "Lines, LANs, DHCP and names end, and what goes through this machine is cut. Take the gateway down?"); err != nil {
				return err
			}
			err := d.client().Down(c.Context())
			if errors.Is(err, api.ErrNoDaemon) {
				err = gateway.Down(c.Context(), gateway.Options{StateDir: d.state, RuntimeDir: d.runtime, Log: quiet(c.ErrOrStderr())})
			}
			if err != nil {
				return err
			}
			return say(c.OutOrStdout(), "The machine is as it was found.\n")
		},
	}
	d.flags(c)
	f.yesFlag(c)
	return c
}
