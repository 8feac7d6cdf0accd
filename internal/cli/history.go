package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/gateway"
)

func historyCmd() *cobra.Command {
	var (
		d      dirs
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "history",
		Short: "Show which files were in force, when, by whom and why",
		Long: `Shows which files were in force, the newest first: 0 is in force. "weir diff N" shows what
has changed since, and "weir rollback N" goes back. About a megabyte of them is kept.
Where weir does not run they are read from its folder.`,
		Example: `  weir history
  weir diff 2
  weir rollback 2`,
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			past, err := d.client().History(c.Context())
			if errors.Is(err, api.ErrNoDaemon) {
				var stored gateway.Past
				if stored, err = d.past(c, err); err == nil {
					past = stored.History()
				}
			}
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(past)
			}
			t := newTable("N", "SINCE", "BY", "WHO", "FILE", "WHY")
			for _, p := range past {
				why := p.Why
				if !p.ConfirmBy.IsZero() {
					why = strings.TrimSpace(why + " (on trial until " + p.ConfirmBy.Local().Format(time.TimeOnly) + ")")
				}
				t.row(strconv.Itoa(p.Back), p.Since.Local().Format(time.DateTime), p.By, visible(p.Who), visible(p.From), visible(why))
			}
			return t.write(c.OutOrStdout())
		},
	}
	d.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md)")
	return c
}

// past reads what was in force from the state directory. none says that no daemon
// answered, which is the error where nothing is stored either.
func (d *dirs) past(c *cobra.Command, none error) (gateway.Past, error) {
	past, damage, err := gateway.ReadPast(d.state)
	if err != nil {
		return past, fmt.Errorf("%w; and what it stored can't be read: %w", none, err)
	}
	for _, what := range damage {
		_ = say(c.ErrOrStderr(), "%s\n", what)
	}
	if len(past.History()) == 0 {
		return past, fmt.Errorf("%w; and in %s no file is stored that was in force: --state-dir names another folder", none, d.state)
	}
	return past, nil
}

func diffCmd() *cobra.Command {
	var d dirs
	c := &cobra.Command{
		Use:   "diff [N]",
		Short: "Show what has changed in the file since",
		Long: `Shows what has changed between the file that was in force N changes ago ("weir history"), 1
unless it is said, and the one in force now, as diff -u does.`,
		Example: `  weir diff
  weir diff 3`,
		Args: back(0),
		RunE: func(c *cobra.Command, args []string) error {
			back := 1
			if len(args) > 0 {
				var err error
				if back, err = changesAgo(args[0], 0); err != nil {
					return err
				}
			}
			inForce := func(back int) ([]api.Source, error) { return d.client().InForce(c.Context(), back) }
			old, err := inForce(back)
			if errors.Is(err, api.ErrNoDaemon) {
				stored, serr := d.past(c, err)
				if serr != nil {
					return serr
				}
				inForce = stored.InForce
				old, err = inForce(back)
			}
			if err != nil {
				return err
			}
			now, err := inForce(0)
			if err != nil {
				return err
			}
			return say(c.OutOrStdout(), "%s", unified(fmt.Sprintf(" (%d)", back), " (0)", old, now))
		},
	}
	d.flags(c)
	return c
}

// back wants at most one N of the history, from least on.
func back(least int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("one number of changes is taken and %d are named: `%s 2`", len(args), c.CommandPath())
		}
		if len(args) == 1 {
			_, err := changesAgo(args[0], least)
			return err
		}
		return nil
	}
}

// changesAgo reads N of the history.
func changesAgo(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least {
		return 0, wrong(fmt.Errorf("%q is no number of changes: %d or more, as `weir history` shows them", s, least))
	}
	return n, nil
}

// unified is what differs, file by file: they are the same by their names, which was and
// is mark in the output.
func unified(was, is string, old, now []api.Source) string {
	text := func(src []api.Source, name string) string {
		for _, s := range src {
			if s.Name == name {
				return s.Text
			}
		}
		return ""
	}
	var names []string
	seen := map[string]bool{}
	for _, s := range append(append([]api.Source(nil), old...), now...) {
		if !seen[s.Name] {
			seen[s.Name], names = true, append(names, s.Name)
		}
	}
	if len(old) == 1 && len(now) == 1 { // the same file, wherever it was read from
		return udiff.Unified(old[0].Name+was, now[0].Name+is, old[0].Text, now[0].Text)
	}
	var b strings.Builder
	for _, n := range names {
		b.WriteString(udiff.Unified(n+was, n+is, text(old, n), text(now, n)))
	}
	return b.String()
}
