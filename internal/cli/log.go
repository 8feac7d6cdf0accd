package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"weir/internal/api"
)

func logCmd() *cobra.Command {
	var (
		d      dirs
		follow bool
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "log",
		Short: "Show what was refused, and by which rule",
		Long: `Shows the connections that policy refused lately, each with the rule that did it. What
is logged is limited, so that a flood shows as a few lines; the rules' counters have it all.`,
		Example: `  weir log
  weir log -f                       # and what is refused from now on
  weir log --json | jq -r .rule | sort | uniq -c`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			enc := json.NewEncoder(c.OutOrStdout())
			return d.client().Refused(c.Context(), follow, func(r api.Refused) error {
				if asJSON {
					return enc.Encode(r)
				}
				return printRefused(c.OutOrStdout(), r)
			})
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is refused from now on")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line (docs/json.md)")
	return c
}

func printRefused(w io.Writer, r api.Refused) error {
	road := r.In
	if r.Out != "" {
		road += " -> " + r.Out
	}
	return say(w, "%s  %-24s  %-14s  %-4s  %s -> %s\n", r.At.Local().Format("Jan _2 15:04:05"), r.Rule, road, r.Protocol, r.From, r.To)
}
