package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"weir/internal/rehearse"
)

func rehearseCmd() *cobra.Command {
	var (
		o       rehearse.Options
		asJSON  bool
		partial bool
		long    bool
		svg     string
	)
	c := &cobra.Command{
		Use:   "rehearse FILE|DIR",
		Short: "Try the file in a lab",
		Long: `Brings the file up, as it is and by the real "weir run", in labs: network namespaces
with simulated ISPs, an internet and clients, cut off from this machine's network. Then
it tries what a house relies on, and breaks what breaks in real life. Nothing on this
machine changes, and root is not needed: a user who may make user namespaces is enough.

What it says is taken from packets at the clients, the ISPs and the internet, never from
what weir says of itself. A time that fails is taken twice more, and the median counts.
If processors were scarce meanwhile, it is said beside: it changes no verdict.

With --long also what takes minutes, side by side with the rest and once: the line in use
flaps for ten minutes, 5 s up and 25 s down; all lines are lost for a minute, their leases
end meanwhile, and they come back, each of them first in a lab of its own; and a hold_down
of more than two minutes is waited for. It says before how long it will take.

What is promised follows from the file: a line that is tried once a minute is missed a
minute later, and its drills wait for that.

A file of which this kernel can't do a part (VLANs) is rehearsed as far as it goes, which
counts as failed unless --partial is said.`,
		Example: `  weir rehearse gateway.hcl
  weir rehearse gateway.hcl --only forward --only hairpin
  weir rehearse gateway.hcl --long
  weir rehearse gateway.hcl --svg rehearsal.svg
  weir rehearse gateway.hcl --only dark/fiber --keep    # and look around in the lab`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			_, files, err := parse(c.Context(), args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			if c.Flags().Changed("svg") {
				if err := canDraw(svg); err != nil {
					return err
				}
			}
			if fi, err := os.Stat(args[0]); err == nil {
				o.Dir = fi.IsDir()
			}
			o.Files = files
			if long {
				o.Long = &rehearse.Long
			}
			o.Progress = progress(c.ErrOrStderr())
			report, err := rehearse.Rehearse(c.Context(), o)
			if err != nil {
				var none *rehearse.NoSuchDrill
				if errors.As(err, &none) {
					return wrong(err)
				}
				return err
			}
			if svg != "" {
				if err := draw(svg, report); err != nil {
					return err
				}
			}
			return show(c.OutOrStdout(), report, asJSON, partial)
		},
	}
	c.Flags().StringArrayVar(&o.Only, "only", nil, "make only drills like `NAME`: a drill's name, the beginning of it, or a word in it (a LAN, a WAN, IPv6)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON (docs/json.md)")
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave the labs up until ^C, and say how to enter them")
	c.Flags().BoolVar(&long, "long", false, "also what takes minutes: a line that flaps, all lines lost past the ends of their leases, a long hold_down")
	c.Flags().BoolVar(&partial, "partial", false, "a part that this kernel can't do is no failure")
	c.Flags().StringVar(&svg, "svg", "", "also draw the lab and what became of packets when a line was lost, into `FILE`")
	return c
}

// canDraw says before a rehearsal, which takes a minute, what would be in the way of
// writing path after it. A file that is there keeps what it has until then.
func canDraw(path string) error {
	if err := word("--svg: the file's name", path); err != nil {
		return wrong(err)
	}
	fi, err := os.Stat(path)
	if err == nil && !fi.Mode().IsRegular() && !fi.IsDir() {
		return nil // opening a pipe and closing it again is news to its reader
	}
	f, oerr := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if oerr != nil {
		return wrong(fmt.Errorf("--svg: %w", oerr))
	}
	if err != nil {
		return errors.Join(f.Close(), os.Remove(path))
	}
	return f.Close()
}

// draw writes the report's drawing.
func draw(path string, r *rehearse.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("draw the report: %w", err)
	}
	if err := errors.Join(r.SVG(f), f.Close()); err != nil {
		return fmt.Errorf("draw the report into %s: %w", path, err)
	}
	return nil
}

// show prints a report; its verdict is the exit status.
func show(w io.Writer, r *rehearse.Report, asJSON, partial bool) error {
	var err error
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = r.Print(w, onTerminal(w))
	}
	if err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if !r.OK || !partial && r.Partial() {
		return &status{code: exitFailed}
	}
	return nil
}

// progress tells what goes on, on one line that changes where a person looks on,
// else drill by drill.
func progress(w io.Writer) func(rehearse.Event) {
	tty := onTerminal(w)
	var mu sync.Mutex
	doing := map[string]string{}
	var order []string
	done, failed := 0, 0
	return func(e rehearse.Event) {
		mu.Lock()
		defer mu.Unlock()
		if tty {
			fmt.Fprint(w, "\r\x1b[K")
		}
		if e.Takes > 0 {
			fmt.Fprintf(w, "This takes about %d minutes.\n", int(math.Ceil(e.Takes.Minutes())))
			return
		}
		if e.Step != "" && !tty {
			fmt.Fprintf(w, "     %s: %s\n", e.Doing, e.Step)
		}
		for _, r := range e.Results {
			done++
			if !r.OK {
				failed++
			}
			if !tty {
				mark := "ok  "
				if !r.OK {
					mark = "FAIL"
				}
				fmt.Fprintf(w, "%s %s\n", mark, r.Drill)
			}
		}
		if !tty {
			for _, r := range e.Again {
				fmt.Fprintf(w, "again %s: %s, and the median of three counts\n", r.Drill, r.Seen)
			}
		}
		if e.Kept != 0 {
			fmt.Fprintf(w, "lab %q stays until ^C. The gateway: nsenter %s; another machine: then ip netns exec NAME (ip netns lists them)\n",
				e.Run, rehearse.EnterFlags(e.Kept))
		}
		if !tty {
			return
		}
		if _, ok := doing[e.Run]; !ok {
			order = append(order, e.Run)
		}
		if e.Doing != "" {
			doing[e.Run] = strings.TrimSpace(e.Doing + " " + e.Step)
		}
		if e.Ended {
			doing[e.Run] = ""
		}
		var now []string
		for _, run := range order {
			if doing[run] != "" {
				now = append(now, doing[run])
			}
		}
		line := fmt.Sprintf("%d done, %d failed", done, failed)
		if len(now) > 0 {
			line += "; now " + strings.Join(now, ", ")
		}
		if len(line) > 110 {
			line = line[:107] + "..."
		}
		if len(now) > 0 {
			fmt.Fprint(w, line)
		}
	}
}

// labCmd is what rehearse starts as the first process of a lab.
func labCmd() *cobra.Command {
	return &cobra.Command{
		Use:    rehearse.Arg,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if code := rehearse.Inside(nil); code != exitDone {
				return &status{code: code}
			}
			return nil
		},
	}
}
