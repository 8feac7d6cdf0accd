package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"weir/internal/doctor"
	"weir/internal/gateway"
)

func doctorCmd() *cobra.Command {
	var (
		d           dirs
		fix, asJSON bool
	)
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether this machine can be a gateway, and what is in the way",
		Long: `Looks at the kernel, services that clash (NetworkManager, systemd-resolved, dnsmasq, ufw,
docker and others), the clock, the disk, the ports' queues and conntrack's size, and says
for each what to do. It needs no daemon, and changes nothing. An ordinary user sees less,
and is told what.

With --fix it does what is safe: it loads modules, and sets values that cost nobody a
packet. What lasts beyond a boot, and other programs, are left to you.

It ends with 1 if something is wrong; notes alone are no failure.`,
		Example: `  weir doctor
  sudo weir doctor --fix
  weir doctor --json | jq '.[] | select(.state == "wrong")'`,
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			found := doctor.Look(doctor.This(c.Context(), d.state, gateway.BuiltAt()))
			if fix {
				doctor.Fix(found)
			}
			if err := printFindings(c, found, asJSON); err != nil {
				return err
			}
			if doctor.Bad(found) {
				return &status{code: exitFailed}
			}
			return nil
		},
	}
	c.Flags().StringVar(&d.state, "state-dir", "/var/lib/weir", "folder `DIR` for leases and the file in force")
	_ = c.MarkFlagDirname("state-dir") // only completion would miss it
	c.Flags().BoolVar(&fix, "fix", false, "do what is safe")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md)")
	return c
}

func printFindings(c *cobra.Command, found []doctor.Finding, asJSON bool) error {
	out := c.OutOrStdout()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(found)
	}
	for _, f := range found {
		if err := say(out, "%-7s %s: %s\n", f.State, f.Check, visible(f.Seen)); err != nil {
			return err
		}
		switch {
		case f.Fixed:
			_ = say(out, "        done: %s\n", f.Do)
		case f.Error != "":
			_ = say(out, "        could not be done: %s\n        %s\n", visible(f.Error), f.Do)
		case f.Do != "":
			_ = say(out, "        %s\n", f.Do)
		}
	}
	return nil
}
