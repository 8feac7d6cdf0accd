package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/gateway"
)

func downCmd() *cobra.Command {
	var d dirs
	c := &cobra.Command{
		Use:   "down",
		Short: "Give the machine back as it was found",
		Long: `Ends the running weir, if there is one, and takes apart what it made: namespaces,
cables, rules and tables go, interfaces, sysctls and the resolver are put back as they
were found. Leases and the file in force stay stored for the next "weir run".`,
		Example: `  weir down`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
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
	return c
}
