// Package cli is the command line, a file per command.
//
// A command prints what it was asked for on stdout and everything else on
// stderr, and ends with 0 (done), 1 (failed) or 2 (the input is wrong: the file,
// a flag, an argument).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"weir/internal/api"
)

// The exit statuses.
const (
	exitDone    = 0
	exitFailed  = 1
	exitWrong   = 2 // the input is wrong
	exitChanges = 3 // plan --exit-code: there is something to do
)

// status is an error that has an exit status of its own. A nil err says nothing:
// the command has printed all there is to say.
type status struct {
	code int
	err  error
}

func (s *status) Error() string {
	if s.err == nil {
		return fmt.Sprintf("exit status %d", s.code)
	}
	return s.err.Error()
}
func (s *status) Unwrap() error { return s.err }

// wrong marks err as a mistake in the input.
func wrong(err error) error { return &status{exitWrong, err} }

// Main runs weir with args (without the program's name) and returns the exit
// status. A first SIGINT or SIGTERM ends the command in good order, a second at once.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	return report(err, cmd, stderr)
}

// report prints err as a person reads it and returns its exit status.
func report(err error, cmd *cobra.Command, stderr io.Writer) int {
	code := exitFailed
	var s *status
	if errors.As(err, &s) {
		if code = s.code; s.err == nil {
			return code
		}
	}
	var from *api.Error
	if errors.As(err, &from) {
		if from.Status == http.StatusUnprocessableEntity || from.Status == http.StatusBadRequest {
			code = exitWrong
		}
		if from.Diagnostics != "" {
			_ = say(stderr, "%s", from.Diagnostics)
			return code
		}
		if from.Plan != "" {
			_ = say(stderr, "%s", from.Plan)
		}
	}
	_ = say(stderr, "%s: %v\n", cmd.CommandPath(), err)
	return code
}

const rootLong = `weir turns a Linux machine and one file into a gateway with several lines.

  weir check gateway.hcl        is the file right? all mistakes at once
  weir rehearse gateway.hcl     try it in a lab: nothing on this machine changes
  weir plan gateway.hcl         what would change here?
  weir run gateway.hcl          be the gateway
  weir status                   which line is used, and why?
  weir apply gateway.hcl        take the changed file; weir rollback takes it back
  weir down                     give the machine back as it was found

FILE is a file or a folder whose *.hcl files are read in name order as one.
Exit statuses: 0 done, 1 failed, 2 the input is wrong.`

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "A gateway from one file",
		Long:          rootLong,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := c.Help(); err != nil {
				return err
			}
			return &status{code: exitWrong} // no command was named
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var value *pflag.InvalidValueError
		var number *strconv.NumError
		if errors.As(err, &value) && errors.As(err, &number) {
			err = fmt.Errorf("--%s: %q is no whole number that it can be", value.GetFlag().Name, value.GetValue())
		}
		return wrong(fmt.Errorf("%w; `%s --help` shows how it is used", err, c.CommandPath()))
	})
	root.AddGroup(
		&cobra.Group{ID: "file", Title: "The file:"},
		&cobra.Group{ID: "gateway", Title: "The gateway:"},
		&cobra.Group{ID: "look", Title: "Looking:"},
	)
	for _, c := range []*cobra.Command{checkCmd(), fmtCmd(), rehearseCmd(), planCmd()} {
		c.GroupID = "file"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{runCmd(), applyCmd(), confirmCmd(), rollbackCmd(), useCmd(), downCmd()} {
		c.GroupID = "gateway"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{statusCmd(), topCmd(), whyCmd(), leasesCmd(), historyCmd(), diffCmd(), logCmd(), doctorCmd()} {
		c.GroupID = "look"
		root.AddCommand(c)
	}
	root.AddCommand(versionCmd(), workerCmd(), labCmd())
	root.SetHelpCommand(helpCmd())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		c.Args = wrongArgs(c.Args)
		if c.Name() == "completion" {
			shells(c)
		}
	}
	root.Args = wrongArgs(func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := fmt.Errorf("there is no command %q", args[0])
		if s := c.SuggestionsFor(args[0]); len(s) > 0 {
			return fmt.Errorf("%w; did you mean %q?", err, s[0])
		}
		return fmt.Errorf("%w; `weir --help` lists them", err)
	})
	return root
}

// shells has cobra's completion command say what it doesn't know: by itself it shows
// its help for any word, as if that had been asked for.
func shells(c *cobra.Command) {
	var names []string
	for _, s := range c.Commands() {
		names = append(names, s.Name())
		s.Args = wrongArgs(noWords)
	}
	c.Args = wrongArgs(func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("there is no completion for a shell %q: %s", args[0], strings.Join(names, ", "))
		}
		return nil
	})
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := c.Help(); err != nil {
			return err
		}
		return &status{code: exitWrong} // no shell was named
	}
}

// wrongArgs makes what check finds an error of the input.
func wrongArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			return wrong(err)
		}
		return nil
	}
}

// noWords wants nothing beside flags.
func noWords(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is a word too many: `%s` takes flags alone", args[0], c.CommandPath())
	}
	return nil
}

// word is the error of a word that is needed and empty, as an unset variable of a script is.
func word(what, s string) error {
	if strings.TrimSpace(s) == "" {
		return fmt.Errorf("%s is empty (was a variable of a script not set?)", what)
	}
	return nil
}

// oneFile wants one FILE|DIR.
func oneFile(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one file or folder is needed and %d are named: `%s gateway.hcl`", len(args), c.CommandPath())
	}
	return nil
}

// onTerminal says whether w is a terminal that a person looks at.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	terminal := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		terminal = err == nil // /dev/null is a character device as well
	})
	return err == nil && terminal
}
