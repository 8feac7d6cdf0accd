package cli

import (
	"github.com/spf13/cobra"

	"weir/internal/gateway"
)

// workerCmd is what the daemon starts its services with; it is of no use by hand.
func workerCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "worker KIND [NAME] [LEVEL]",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := gateway.Worker(args); code != exitDone {
				return &status{code: code}
			}
			return nil
		},
	}
}
