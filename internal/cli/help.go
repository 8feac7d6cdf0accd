package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/config"
)

// helpCmd explains commands, and the blocks of the file: its mistakes point here.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|BLOCK]",
		Short: "Explain a command, or a block of the file",
		Long: `Explains a command, or a block of the file: each key with what it takes and what
leaving it out means. "weir help file" explains the whole file.`,
		Example: `  weir help plan
  weir help lan
  weir help dhcp`,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			words := append(config.Topics(), "file")
			for _, cmd := range c.Root().Commands() {
				if cmd.IsAvailableCommand() {
					words = append(words, cmd.Name())
				}
			}
			slices.Sort(words)
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if cmd, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 && (cmd != c.Root() || len(args) == 0) {
				cmd.InitDefaultHelpFlag() // as cmd --help would have it
				return cmd.Help()
			}
			text, ok := config.Help(args[0])
			if args[0] == "file" {
				text, ok = string(config.Reference()), true
			}
			if !ok || len(args) > 1 {
				return wrong(fmt.Errorf("nothing is called %q: neither a command (weir --help) nor a block of the file (%s)",
					strings.Join(args, " "), strings.Join(config.Topics(), ", ")))
			}
			_, err := fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
}
