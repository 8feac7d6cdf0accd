package cli

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/gateway"
)

func planCmd() *cobra.Command {
	var (
		d        dirs
		asJSON   bool
		exitCode bool
	)
	c := &cobra.Command{
		Use:   "plan FILE|DIR",
		Short: "Show what the file would change here",
		Long: `Compares what the file wants with what the kernel holds, and shows each step that
"weir run" or "weir apply" would take, rulesets included. Nothing is changed.

Where a weir runs, it is asked, as it knows leases and which lines work; else the
kernel and the stored state are read, which takes root.

  + is made   ~ is changed   - is removed   ! was changed by somebody else

With --exit-code the status says whether there is something to do: 0 nothing,
3 something (1 and 2 stay failed and wrong).`,
		Example: `  weir plan gateway.hcl
  weir plan gateway.hcl --exit-code >/dev/null || echo "there is something to do"
  weir plan gateway.hcl --json | jq '.steps[].name'`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, files, err := parse(c.Context(), args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			out, err := planOutcome(c, d, cfg, args[0], files)
			if err != nil {
				return err
			}
			if err := printOutcome(c, out, asJSON); err != nil {
				return err
			}
			if exitCode && !out.Empty {
				return &status{code: exitChanges}
			}
			return nil
		},
	}
	d.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON (docs/json.md)")
	c.Flags().BoolVar(&exitCode, "exit-code", false, "end with 3 if there is something to do")
	return c
}

// planOutcome asks the daemon, or where none runs the kernel itself.
func planOutcome(c *cobra.Command, d dirs, cfg *config.Config, from string, files []config.File) (api.Outcome, error) {
	out, err := d.client().Plan(c.Context(), api.Change{From: from, Files: sources(files)})
	if err == nil || !errors.Is(err, api.ErrNoDaemon) {
		return out, err
	}
	return gateway.Plan(c.Context(), gateway.Options{StateDir: d.state, RuntimeDir: d.runtime, Log: quiet(c.ErrOrStderr())}, cfg)
}

// printOutcome prints a plan, or what was done, and on stderr what is to be known
// about this machine.
func printOutcome(c *cobra.Command, out api.Outcome, asJSON bool) error {
	for _, n := range out.Notes {
		_ = say(c.ErrOrStderr(), "note: %s\n", n)
	}
	if !asJSON {
		return say(c.OutOrStdout(), "%s", out.Text)
	}
	enc := json.NewEncoder(c.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(out.Plan)
}
