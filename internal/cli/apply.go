package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/kernel"
)

// session is the ssh connection that the command is typed in, nil if it is none.
func session() *api.Session {
	s, ok := kernel.FindSession(os.DirFS("/"), os.Getpid())
	if !ok {
		return nil
	}
	return &api.Session{Peer: s.Peer.String(), Local: s.Local.String()}
}

func applyCmd() *cobra.Command {
	var (
		d      dirs
		asJSON bool
		cut    bool
	)
	c := &cobra.Command{
		Use:   "apply FILE|DIR",
		Short: "Have the running weir take the file",
		Long: `Tells the running weir to take the file, and prints the plan that it carried out. A
wrong file, or a step that fails, changes nothing: the old file stays in force.

The newest word counts, after a restart too: what is applied stays in force until
something else is applied or the file that "weir run" names is changed.
"weir rollback" goes back to the file before.`,
		Example: `  weir apply /etc/weir/gateway.hcl
  weir apply gateway.hcl --yes-cut-me-off    # though this ssh session ends by it`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			_, files, err := parse(c.Context(), args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			from, err := absolute(args[0])
			if err != nil {
				return err
			}
			out, err := d.client().Apply(c.Context(), api.Change{From: from, Files: sources(files), Session: session(), CutMeOff: cut})
			if err != nil {
				return err
			}
			return printOutcome(c, out, asJSON)
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON (docs/json.md)")
	cutFlag(c, &cut)
	return c
}

func rollbackCmd() *cobra.Command {
	var (
		d      dirs
		asJSON bool
		cut    bool
	)
	c := &cobra.Command{
		Use:   "rollback",
		Short: "Have the running weir take the file before",
		Long: `Puts the file in force that was before the last "weir apply", and prints the plan
that was carried out. A second rollback undoes the first.`,
		Example: `  weir apply new.hcl
  weir rollback`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := d.client().Rollback(c.Context(), api.Change{Session: session(), CutMeOff: cut})
			if err != nil {
				return err
			}
			_ = say(c.ErrOrStderr(), "%s", out.Remarks)
			return printOutcome(c, out, asJSON)
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON (docs/json.md)")
	cutFlag(c, &cut)
	return c
}

func cutFlag(c *cobra.Command, cut *bool) {
	c.Flags().BoolVar(cut, "yes-cut-me-off", false, "go on even if this ssh session is cut by it")
}

// absolute is path as the daemon, which runs elsewhere, would find it.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find out where %s is: %w", path, err)
	}
	return abs, nil
}
