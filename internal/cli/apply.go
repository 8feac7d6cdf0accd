package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
		d    dirs
		f    changeFlags
		from string
	)
	c := &cobra.Command{
		Use:   "apply FILE|DIR",
		Short: "Have the running weir take the file",
		Long: `Shows how the file differs from the one in force and what that would change in the
kernel, asks, and has the running weir do it. A wrong file, or a step that fails, changes
nothing: the old file stays in force.

With --confirm TIME the file is on trial: unless "weir confirm" comes in that time, from
any session, the file before is in force again. So it is after a kill, too; after a
reboot or a power cut it is at once. What would cut the ssh session that you
type in is done in no other way.

The newest word counts, after a restart too: what is applied stays in force until
something else is applied or the file that "weir run" names is changed. "weir
history" shows what was in force, and "weir rollback" goes back.`,
		Example: `  weir apply /etc/weir/gateway.hcl
  weir apply gateway.hcl --confirm 5m -m "new address of the LAN"
  weir confirm                               # from the new address, if it works
  weir apply gateway.hcl --yes               # from a script: nobody is asked`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := notStdin(args[0], "whether to do it is asked there"); err != nil {
				return err
			}
			_, files, err := parse(c.Context(), args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			if from, err = absolute(args[0]); err != nil {
				return err
			}
			if err := f.check(c); err != nil {
				return err
			}
			ch := api.Change{From: from, Files: sources(files)}
			p, err := d.client().Plan(c.Context(), ch)
			if err != nil {
				return err
			}
			if !f.asJSON && !f.yes {
				if err := d.showChange(c, ch.Files, p); err != nil {
					return err
				}
			}
			if !p.Empty {
				if err := f.ask(c, "Put it in force?"); err != nil {
					return err
				}
			}
			ch.Base = p.Base
			out, err := d.client().Apply(c.Context(), f.change(ch))
			if err != nil {
				return err
			}
			return f.done(c, out)
		},
	}
	d.runtimeFlag(c)
	f.flags(c)
	return c
}

// showChange prints in the file's words how files differ from those in force, and then
// what p makes of it in the kernel.
func (d *dirs) showChange(c *cobra.Command, files []api.Source, p api.Outcome) error {
	now, err := d.client().InForce(c.Context(), 0)
	if err != nil {
		return err
	}
	text := unified(" (in force)", " (to come)", now, files)
	if text == "" {
		text = "The file is the one in force.\n"
	}
	if err := say(c.OutOrStdout(), "%s\nIn the kernel:\n", text); err != nil {
		return err
	}
	return printOutcome(c, p, false)
}

func rollbackCmd() *cobra.Command {
	var (
		d dirs
		f changeFlags
	)
	c := &cobra.Command{
		Use:   "rollback [N]",
		Short: "Have the running weir take a file that was before",
		Long: `Puts the file in force that was in force N changes ago ("weir history"), 1 unless it is
said, after showing what that would change. A second rollback undoes the first.
A file that waits for "weir confirm" is taken back at once.`,
		Example: `  weir apply new.hcl
  weir rollback
  weir diff 3 && weir rollback 3`,
		Args: back(1),
		RunE: func(c *cobra.Command, args []string) error {
			var ch api.Change
			if err := f.check(c); err != nil {
				return err
			}
			if len(args) > 0 {
				var err error
				if ch.Back, err = changesAgo(args[0], 1); err != nil {
					return err
				}
			}
			if !f.yes {
				files, err := d.client().InForce(c.Context(), max(ch.Back, 1))
				if err != nil {
					return err
				}
				p, err := d.client().Plan(c.Context(), api.Change{Files: files})
				if err != nil {
					return err
				}
				if err := d.showChange(c, files, p); err != nil {
					return err
				}
				if err := f.ask(c, "Go back?"); err != nil {
					return err
				}
				ch.Base = p.Base
			}
			out, err := d.client().Rollback(c.Context(), f.change(ch))
			if err != nil {
				return err
			}
			_ = say(c.ErrOrStderr(), "%s", out.Remarks)
			return f.done(c, out)
		},
	}
	d.runtimeFlag(c)
	f.flags(c)
	return c
}

// changeFlags are those of what puts a file in force.
type changeFlags struct {
	asJSON, yes bool
	confirm     time.Duration
	why         string
}

func (f *changeFlags) flags(c *cobra.Command) {
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the plan as JSON (docs/json.md); with --yes")
	f.yesFlag(c)
	c.Flags().DurationVar(&f.confirm, "confirm", 0, "undo it after `TIME` (5m) unless \"weir confirm\" comes")
	c.Flags().StringVarP(&f.why, "message", "m", "", "`TEXT` says why, for the history")
}

func (f *changeFlags) yesFlag(c *cobra.Command) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "don't ask")
}

// change is ch as the flags want it.
func (f *changeFlags) change(ch api.Change) api.Change {
	ch.ConfirmS, ch.Why, ch.Who, ch.Session = f.confirm.Seconds(), f.why, person(), session()
	return ch
}

// check finds what is wrong with the flags. Who can't be asked has to have said yes.
func (f *changeFlags) check(c *cobra.Command) error {
	in, isFile := c.InOrStdin().(*os.File)
	switch {
	case c.Flags().Changed("confirm") && f.confirm <= 0:
		return wrong(fmt.Errorf("--confirm %s: a time to come is needed, as 5m", f.confirm))
	case f.yes:
		return nil
	case f.asJSON:
		return wrong(errors.New("--json asks nobody: add --yes"))
	case isFile && !onTerminal(in):
		return wrong(errors.New("nothing was changed: nobody can be asked, as the input is no terminal; add --yes"))
	}
	return nil
}

// ask has a person say yes.
func (f *changeFlags) ask(c *cobra.Command, what string) error {
	if f.yes {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s [y/N] ", what)
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n')
		said <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-c.Context().Done():
		return c.Context().Err()
	case s := <-said:
		if s != "y" && s != "yes" {
			return errors.New("nothing was changed")
		}
	}
	return nil
}

// done prints what was done, if it was not shown before.
func (f *changeFlags) done(c *cobra.Command, out api.Outcome) error {
	if f.yes || f.asJSON {
		if err := printOutcome(c, out, f.asJSON); err != nil {
			return err
		}
	}
	if !out.ConfirmBy.IsZero() {
		fmt.Fprintf(c.ErrOrStderr(), "On trial until %s: `weir confirm` keeps it.\n", out.ConfirmBy.Local().Format(time.TimeOnly))
	}
	return nil
}

func confirmCmd() *cobra.Command {
	var d dirs
	c := &cobra.Command{
		Use:     "confirm",
		Short:   "Keep the file that is on trial",
		Long:    `Keeps the file that "weir apply --confirm" put in force on trial, from any session.`,
		Example: `  weir confirm`,
		Args:    noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := d.client().Confirm(c.Context())
			if err != nil {
				return err
			}
			return say(c.OutOrStdout(), "%s stays in force.\n", fromHere(f.From))
		},
	}
	d.runtimeFlag(c)
	return c
}

// absolute is path as the daemon, which runs elsewhere, would find it.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find out where %s is: %w", path, err)
	}
	return abs, nil
}

// fromHere is an absolute path as a person types it here.
func fromHere(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

func cutFlag(c *cobra.Command, cut *bool) {
	c.Flags().BoolVar(cut, "yes-cut-me-off", false, "go on even if this ssh session is cut by it")
}
