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
		dns    bool
	)
	c := &cobra.Command{
		Use:   "log",
		Short: "Show what was refused, and by which rule; or who asks for which names",
		Long: `Shows the connections that policy refused lately, each with the rule that did it. What
is logged is limited, so that a flood shows as a few lines; the rules' counters have it all.

With --dns it shows which names the house asks for, and who does, where the file has
dns { log = true }. At most 1,000 a second are shown, the last 1,000 are kept, and
nothing of it is ever written to a disk. What a block_list withheld is marked as such.`,
		Example: `  weir log
  weir log -f                       # and what is refused from now on
  weir log --json | jq -r .rule | sort | uniq -c
  weir log --dns -f                 # the names that are asked for now`,
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			enc := json.NewEncoder(c.OutOrStdout())
			if dns {
				return d.client().Asked(c.Context(), follow, func(a api.Asked) error {
					if asJSON {
						return enc.Encode(a)
					}
					return printAsked(c.OutOrStdout(), a)
				})
			}
			return d.client().Refused(c.Context(), follow, func(r api.Refused) error {
				if asJSON {
					return enc.Encode(r)
				}
				return printRefused(c.OutOrStdout(), r)
			})
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is refused, or asked for, from now on")
	c.Flags().BoolVar(&dns, "dns", false, "the names that are asked for, in place of what is refused")
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

func printAsked(w io.Writer, a api.Asked) error {
	at := a.At.Local().Format("Jan _2 15:04:05")
	if a.Missed > 0 {
		return say(w, "%s  and %d more\n", at, a.Missed)
	}
	return say(w, "%s  %-24s  %-5s  %s%s\n", at, a.Client, a.Type, a.Name, prefixed("  ", a.Answer))
}

// prefixed is s behind before, and nothing if there is none.
func prefixed(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}
