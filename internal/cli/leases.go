package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
)

func leasesCmd() *cobra.Command {
	var (
		d      dirs
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "leases",
		Short: "List who has which address at home",
		Long: `Lists the addresses that the DHCP servers of each LAN have given out, lowest first,
and the prefixes of routers there.`,
		Example: `  weir leases
  weir leases --json | jq -r '.[] | select(.name == "nas").address'`,
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			leases, err := d.client().Leases(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(leases)
			}
			return printLeases(c.OutOrStdout(), leases, time.Now())
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md)")
	return c
}

func printLeases(w io.Writer, leases []api.Lease, now time.Time) error {
	if len(leases) == 0 {
		_, err := fmt.Fprintln(w, "Nobody has a lease.")
		return err
	}
	t := newTable("LAN", "ADDRESS", "MAC", "NAME", "ENDS")
	for _, l := range leases {
		ends := "never"
		if !l.Expires.IsZero() {
			ends = in(now, l.Expires)
		}
		if l.Static {
			ends += " (by the file)"
		}
		t.row(l.LAN, l.Address, l.MAC, l.Name, ends)
	}
	return t.write(w)
}
