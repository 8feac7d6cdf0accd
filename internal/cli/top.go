package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
)

// topRows is how many hosts and flows are asked for where a terminal may get higher.
const topRows = 200

func topCmd() *cobra.Command {
	var (
		d            dirs
		q            api.TrafficQuery
		asJSON, once bool
	)
	q.Every, q.Most = api.TrafficEvery, api.TrafficListed
	c := &cobra.Command{
		Use:   "top",
		Short: "Show who sends how much, live: each line, host and flow",
		Long: `Shows what passes each line, and the busiest hosts and flows: bits and packets a second
both ways, and all that a flow has had. Down is towards the host; of a line, from the ISP.
A host is called as its lease or the file calls it; "self" is the gateway. A flow is told
as its host sees it, untranslated; ">" was begun by the host, "<" by its peer.

FAST is the share of packets that took the fast path, both ways. Of a line it is that of
its programs, of hosts and flows that between the LANs and the lines. Beside it stands
why the others did not, or why there is no fast path.

On a terminal it is shown anew after each interval: q ends it, and r, d, u, p and t sort
by rate, down, up, packets and total. Elsewhere one report follows the other.

A line's figures are its port's: whole frames, and what is no flow as well. A flow's are
conntrack's and the fast path's: from the IP header on, and segments that the card joins
are one packet.
All flows are read once in each interval, and none while nobody looks.`,
		Example: `  weir top
  weir top -d 5 -o down                  # each five seconds, who receives most first
  weir top --once > report.txt           # of two seconds
  weir top --once --json | jq -r '.hosts[] | "\(.name) \(.down.bits_per_s)"'
  weir top --json | jq -c '.wans[] | {name, slow}'   # why packets are slow, until ^C`,
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := q.Check(); err != nil {
				return wrong(err)
			}
			q.Watch = !once
			out := c.OutOrStdout()
			switch {
			case asJSON:
				enc := json.NewEncoder(out)
				if once {
					enc.SetIndent("", "  ")
				}
				return d.client().Traffic(c.Context(), q, func(t api.Traffic) error { return enc.Encode(t) })
			case !once && onTerminal(out):
				if !c.Flags().Changed("rows") {
					q.Most = topRows
				}
				return liveTop(c.Context(), d.client(), q, out.(*os.File), os.Stdin)
			}
			between := ""
			return d.client().Traffic(c.Context(), q, func(t api.Traffic) error {
				err := say(out, "%s%s", between, topText(t, topView{sort: q.Sort}))
				between = "\n"
				return err
			})
		},
	}
	d.runtimeFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md), without --once one object a line")
	c.Flags().BoolVar(&once, "once", false, "show it once, after one interval")
	c.Flags().VarP((*interval)(&q.Every), "interval", "d", "`SECONDS` that rates are of, or a time as 500ms or 1m")
	c.Flags().StringVarP(&q.Sort, "sort", "o", api.TrafficSorts[0], "sort hosts and flows by `WHAT`: rate, down, up, packets or total")
	c.Flags().IntVar(&q.Most, "rows", q.Most, "list at most `N` hosts and flows; a terminal, unless said, as many as it has room for")
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(api.TrafficSorts, cobra.ShellCompDirectiveNoFileComp)) // only completion would miss it
	return c
}

// interval is a time, as a number of seconds or as Go writes one.
type interval time.Duration

func (i *interval) String() string {
	return strconv.FormatFloat(time.Duration(*i).Seconds(), 'f', -1, 64)
}

func (i *interval) Type() string { return "seconds" }

func (i *interval) Set(s string) error {
	v, err := time.ParseDuration(s)
	if n, nerr := strconv.ParseFloat(s, 64); nerr == nil {
		v, err = time.Duration(n*float64(time.Second)), nil
		if !(n >= 0 && n <= 1e9) {
			v = -1
		}
	}
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is neither seconds nor a time as 500ms or 1m", s)
	}
	*i = interval(v)
	return nil
}

// liveTop shows it on a terminal until somebody ends it by a key. Where in is no
// terminal there are no keys.
func liveTop(ctx context.Context, client *api.Client, q api.TrafficQuery, out, in *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, restore, err := keysOf(in)
	if err != nil {
		return err
	}
	defer restore()
	defer func() { _, _ = io.WriteString(out, "\n") }() // the prompt comes below
	if _, err := io.WriteString(out, "\x1b[H\x1b[2J"); err != nil {
		return err
	}
	for {
		again, err := topUntilKey(ctx, client, &q, out, keys)
		if err != nil || !again {
			return err
		}
	}
}

// topUntilKey shows it until a key wants it sorted otherwise, which q then has.
func topUntilKey(ctx context.Context, client *api.Client, q *api.TrafficQuery, out *os.File, keys <-chan byte) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reports, ended := make(chan api.Traffic), make(chan error, 1)
	asked := *q
	go func() {
		ended <- client.Traffic(ctx, asked, func(t api.Traffic) error {
			select {
			case reports <- t:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	for {
		select {
		case t := <-reports:
			width, height := sizeOf(out)
			if err := redraw(out, topText(t, topView{sort: q.Sort, width: width, height: height, keys: keys != nil})); err != nil {
				return false, err
			}
		case err := <-ended:
			return false, err
		case k, ok := <-keys:
			if !ok {
				keys = nil // nobody types there any more
				continue
			}
			if k == 'q' || k == 'Q' {
				return false, nil
			}
			for _, by := range api.TrafficSorts {
				if k == by[0] && by != q.Sort {
					q.Sort = by
					return true, nil
				}
			}
		}
	}
}
