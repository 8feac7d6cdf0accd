package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
)

// auto is the word that leaves the choice to failover.
const auto = "auto"

func useCmd() *cobra.Command {
	var (
		d      dirs
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "use WAN|auto",
		Short: "Choose the line that new connections take",
		Long: `Has new connections take a line, whatever "prefer" says. While the line does not work
the others are used, and it is taken again when it has been good for its hold-down; said
again, as soon as it answers. "auto" leaves the choice to failover. What is chosen stays
through restarts; "weir status" shows it and who chose. A file that lacks the line ends
the choice, for good.

Connections that are there stay where they are, or move if the line that they leave
says on_return = "move".`,
		Example: `  weir use lte         # while the technician is at the fibre
  weir use auto        # as the file says again
  weir status          # what is used now, and why`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("a WAN or auto is needed and %d words are there: `%s lte`", len(args), c.CommandPath())
			}
			return word("the line's name", args[0])
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			words := []cobra.Completion{auto}
			if s, err := d.client().Status(c.Context()); err == nil { // else there is nobody to ask
				for _, w := range s.WANs {
					words = append(words, w.Name)
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			wan := args[0]
			if wan == auto {
				wan = ""
			}
			used, err := d.client().Use(c.Context(), api.Choice{WAN: wan, By: person()})
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(used)
			}
			var b bytes.Buffer
			printUse(&b, used.IPv4, used.IPv6)
			if s, err := d.client().Status(c.Context()); err == nil { // what was asked for is done
				b.WriteString(notYet(wan, s))
			}
			return say(c.OutOrStdout(), "%s", b.String())
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md)")
	return c
}

// notYet says for which families a line that was chosen does not work, and when it is
// taken; "" is nothing.
func notYet(wan string, s api.Status) string {
	var b strings.Builder
	for _, w := range s.WANs {
		if w.Name != wan {
			continue
		}
		for _, f := range []struct {
			name string
			line api.Line
		}{{"IPv4", w.IPv4}, {"IPv6", w.IPv6}} {
			switch f.line.Verdict {
			case api.VerdictDown, api.VerdictAbsent:
				fmt.Fprintf(&b, "%s of %s is %s: %s. It is taken once it has been good for its hold-down; said again, as soon as it answers.\n",
					f.name, wan, f.line.Verdict, f.line.Why)
			case api.VerdictOff:
				fmt.Fprintf(&b, "%s of %s is off: the file does not want it.\n", f.name, wan)
			}
		}
	}
	return b.String()
}

// person is who types the command, before sudo if that was used.
func person() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
