package cli

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/gateway"
	"weir/internal/kernel"
)

func runCmd() *cobra.Command {
	var (
		d       dirs
		cut     bool
		verbose bool
	)
	c := &cobra.Command{
		Use:   "run FILE|DIR",
		Short: "Be the gateway",
		Long: `Makes this machine, or the network namespace that it is started in, the gateway that
the file describes, and stays to keep it so. It logs to stderr, and tells systemd
(Type=notify) when the kernel forwards. Of one message it logs 200 a minute at most, and
then says how many were left out; --verbose logs all.

However it ends (SIGTERM, a crash, an upgrade) the kernel goes on forwarding, and the
next start takes over what is there without a packet lost. Only "weir down" takes it
apart.

If something was applied since FILE was last read, and FILE is still the same, what was
applied stays in force. If FILE is wrong, what was in force last stays, and the log says so.`,
		Example: `  weir run /etc/weir/gateway.hcl
  weir run /etc/weir                           # all of its *.hcl, as one
  weir run a.hcl --state-dir /tmp/a --runtime-dir /tmp/a    # beside another one`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			log := logger(c.ErrOrStderr(), verbose)
			slog.SetDefault(log) // what libraries say goes the same way
			if err := notStdin(args[0], "the next start reads the file again"); err != nil {
				return err
			}
			files, err := readSource(c.Context(), args[0])
			if err != nil {
				return err
			}
			from, err := absolute(args[0])
			if err != nil {
				return err
			}
			// The daemon is one loop, and its heavy work is in its children and the kernel. On
			// one processor nobody is woken, twenty times a second, to look for work: see bare.
			runtime.GOMAXPROCS(1)
			err = gateway.Run(c.Context(), gateway.Options{
				From: from, Files: files, StateDir: d.state, RuntimeDir: d.runtime, Version: theVersion(),
				Session: session(), CutMeOff: cut, Log: log, SetClock: kernel.Clock(),
			})
			if errors.Is(err, api.ErrRunning) {
				return wrong(err)
			}
			return err
		},
	}
	d.flags(c)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log each step, too")
	cutFlag(c, &cut)
	return c
}

// logger logs to w: as text, without the time where the journal adds its own.
func logger(w io.Writer, verbose bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		o.Level = slog.LevelDebug
	}
	if os.Getenv("JOURNAL_STREAM") != "" {
		o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	h := slog.Handler(slog.NewTextHandler(w, o))
	if !verbose {
		h = newQuota(h)
	}
	return slog.New(h)
}

// quiet logs only what a person must see: for commands that do one thing.
func quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
