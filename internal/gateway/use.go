package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/state"
)

// Use has new connections take the WAN that a person chose, while it works. It is
// stored before it is answered.
func (d *daemon) Use(ctx context.Context, c api.Choice) (api.Used, error) {
	return call(ctx, d, func() (api.Used, error) {
		now := time.Now()
		next := state.Choice{WAN: c.WAN, By: c.By, Since: now}
		keep := state.KeepChoice(&next)
		switch {
		case c.WAN == "":
			next, keep = state.Choice{}, state.KeepChoice(nil)
		case d.cfg.WAN(c.WAN) == nil:
			var names []string
			for _, w := range d.cfg.WANs {
				names = append(names, w.Name)
			}
			return api.Used{}, &api.Error{Status: http.StatusUnprocessableEntity, Problem: api.Problem{
				Title: fmt.Sprintf("no WAN is called %q; WANs here: %s", c.WAN, strings.Join(names, ", "))}}
		}
		if next.WAN != d.chosen.WAN {
			d.log.Info("a person chose the line", "wan", c.WAN, "by", c.By)
		}
		d.chosen, d.news = next, true
		d.machine.Use(now, next.WAN)
		d.judge(now)
		var used api.Used
		used.IPv4, used.IPv6 = uses(d.world.state(d.cfg), d.machine.Status())
		used.Choice = d.choice()
		if err := d.store.Put(keep); err != nil {
			return used, fmt.Errorf("the choice is in force, but will not survive a restart: %w", err)
		}
		return used, nil
	})
}

// choice is what a person chose, nil if failover chooses.
func (d *daemon) choice() *api.Choice {
	if d.chosen.WAN == "" {
		return nil
	}
	return &api.Choice{WAN: d.chosen.WAN, By: d.chosen.By, Since: d.chosen.Since}
}

// dropChoice lets go of a choice of a WAN that c does not have, so that another one
// of that name, in some later file, is not taken for it. note tells of it, and items are to be stored;
// both are empty if there is nothing to let go of.
func (d *daemon) dropChoice(c *config.Config) (note string, items []state.Item) {
	old := d.chosen
	if old.WAN == "" || c.WAN(old.WAN) != nil {
		return "", nil
	}
	d.chosen = state.Choice{}
	d.log.Info("the chosen line is not in the file any more: failover chooses", "wan", old.WAN, "by", old.By)
	return fmt.Sprintf("%s chose %s (`weir use`), which this file does not have: failover chooses again", old.By, old.WAN), []state.Item{state.KeepChoice(nil)}
}
