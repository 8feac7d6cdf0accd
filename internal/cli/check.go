package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/config"
)

func checkCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE|DIR",
		Short: "Say all that is wrong with the file",
		Long: `Reads the file and says all that is wrong with it at once, each with its place.
It looks at nothing but the file: any machine and any user can check it.`,
		Example: `  weir check gateway.hcl
  weir check /etc/weir           # all of its *.hcl, as one
  weir check - < gateway.hcl     # what comes on the standard input`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, _, err := parse(c.Context(), args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			name := args[0]
			if name == stdin {
				name = stdinName
			}
			return say(c.OutOrStdout(), "%s is right: %s\n", name, contents(cfg))
		},
	}
}

// contents says what a file holds, to see at a glance that it is the one meant.
func contents(c *config.Config) string {
	hosts := 0
	for _, l := range c.LANs {
		hosts += len(l.Hosts)
	}
	var s []string
	for _, n := range []struct {
		n    int
		what string
	}{{len(c.WANs), "WAN"}, {len(c.LANs), "LAN"}, {hosts, "host"}, {len(c.Rules), "rule"}, {len(c.Forwards), "forward"}} {
		switch n.n {
		case 0:
		case 1:
			s = append(s, "1 "+n.what)
		default:
			s = append(s, fmt.Sprintf("%d %ss", n.n, n.what))
		}
	}
	return strings.Join(s, ", ")
}
