package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
)

func statusCmd() *cobra.Command {
	var (
		d      dirs
		asJSON bool
		watch  bool
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the lines, which one is used and why",
		Long: `Shows each line with its verdict, loss, latency and addresses, which line new
connections take and why, what answers from outside, and the services.`,
		Example: `  weir status
  weir status --watch                              # again after each change
  weir status --json | jq -r .ipv4.wan             # the line in use
  weir status --json --watch | jq -c '.wans[].ipv4.verdict'`,
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			show := func(s api.Status) error { return printStatus(c.OutOrStdout(), s, time.Now()) }
			switch {
			case asJSON:
				enc := json.NewEncoder(c.OutOrStdout())
				if !watch {
					enc.SetIndent("", "  ")
				}
				show = func(s api.Status) error { return enc.Encode(s) }
			case watch && onTerminal(c.OutOrStdout()):
				once := show
				show = func(s api.Status) error {
					if _, err := io.WriteString(c.OutOrStdout(), "\x1b[H\x1b[2J"); err != nil {
						return err
					}
					return once(s)
				}
			case watch:
				once := show
				show = func(s api.Status) error {
					err := once(s)
					fmt.Fprintln(c.OutOrStdout())
					return err
				}
			}
			if watch {
				return d.client().WatchStatus(c.Context(), show)
			}
			s, err := d.client().Status(c.Context())
			if err != nil {
				return err
			}
			return show(s)
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md), with --watch one object a line")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again after each change")
	return c
}
