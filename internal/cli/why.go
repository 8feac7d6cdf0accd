package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/gateway"
)

func whyCmd() *cobra.Command {
	var (
		d              dirs
		asJSON         bool
		file, protocol string
	)
	c := &cobra.Command{
		Use:   "why SRC DST[:PORT]",
		Short: "Explain what becomes of a connection, and why",
		Long: `Explains what would become of a connection that SRC opens to DST now: which rule,
forward or reach lets it pass or refuses it, by which line it leaves and which route
says so, and under which address. Nothing is sent. Conversations of that kind that
are under way are told too, with the line that each was begun by: there they stay.

SRC and DST are a host, LAN or WAN of the file, self (the gateway), a device's name
from its lease, or an address. SRC as a WAN is anybody outside who comes by it, and
ADDRESS@WAN or ADDRESS@LAN somebody there; DST as a WAN is the line's own address.
With a port it is TCP, without one a ping, unless --protocol says so.

The running weir is asked. With --file it is worked out for FILE from the kernel and
the stored state, as "weir plan" does, which takes root.`,
		Example: `  weir why tablet 192.0.2.80:443
  weir why tablet '[2001:db8::80]:53' --protocol udp
  weir why fiber self:80                 # from outside, at the line's address
  weir why 203.0.113.7@fiber self:22     # the same, from there
  weir why guest nas:445 --json | jq -r '.ways[].verdict'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("a source and a destination are needed and %d are named: `%s nas 192.0.2.80:443`", len(args), c.CommandPath())
			}
			if err := errors.Join(word("the source", args[0]), word("the destination", args[1])); err != nil {
				return err
			}
			if !c.Flags().Changed("protocol") {
				return nil
			}
			_, err := config.ParseProtocol(protocol)
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			var w api.Why
			var err error
			if file == "" {
				w, err = d.client().Why(c.Context(), args[0], args[1], protocol)
			} else {
				cfg, _, perr := parse(c.Context(), file, c.ErrOrStderr())
				if perr != nil {
					return perr
				}
				w, err = gateway.Why(c.Context(), gateway.Options{StateDir: d.state, RuntimeDir: d.runtime, Log: quiet(c.ErrOrStderr())}, cfg, args[0], args[1], protocol)
			}
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(w)
			}
			return printWhy(c.OutOrStdout(), w)
		},
	}
	d.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md)")
	c.Flags().StringVarP(&file, "file", "f", "", "work it out for `FILE` (or a folder), as if it were in force")
	c.Flags().StringVar(&protocol, "protocol", "", "`NAME` is tcp, udp or icmp")
	return c
}

func printWhy(w io.Writer, why api.Why) error {
	if err := say(w, "%s -> %s (%s)\n", why.From, why.To, why.Protocol); err != nil {
		return err
	}
	for _, v := range why.Ways {
		if err := say(w, "\nIPv%d: %s\n", v.Family, wayText(v)); err != nil {
			return err
		}
		for _, s := range v.Steps {
			at := ""
			if s.At != "" {
				at = " (" + s.At + ")"
			}
			if err := say(w, "  %-12s %s%s\n", s.What, s.Text, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// wayText is the verdict in a line.
func wayText(v api.Way) string {
	switch v.Verdict {
	case "leaves":
		if v.Source != "" {
			return fmt.Sprintf("leaves by wan.%s as %s", v.WAN, v.Source)
		}
		return "leaves by wan." + v.WAN
	case "delivered":
		if v.Destination != "" {
			return fmt.Sprintf("delivered to %s in lan.%s", v.Destination, v.LAN)
		}
		return "delivered in lan." + v.LAN
	case "reached":
		return "reaches the gateway itself, if something listens there"
	case "refused":
		return "refused, and told so (" + v.By + ")"
	}
	return "dropped in silence (" + v.By + ")"
}
