package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// units of times, largest first.
var units = []struct {
	name string
	of   int64
}{{"d", day}, {"h", hour}, {"m", mnt}, {"s", sec}, {"ms", ms}}

func (c *checker) duration(k *key, s string, at hcl.Range) (any, bool) {
	d, ok := parseDuration(s)
	if !ok {
		if s != "" && strings.Trim(s, "0123456789") == "" {
			c.noUnit(s, at)
			return nil, false
		}
		return c.wrong(k, at, fmt.Sprintf("%q", s), `Times look like "250ms", "30s", "5m", "12h", "7d".`)
	}
	if int64(d) < k.min || int64(d) > k.max {
		c.err(at, fmt.Sprintf("%s is %s to %s.", k.name, durationText(k.min), durationText(k.max)), "%s is out of range", s)
		return nil, false
	}
	return d, true
}

// parseDuration reads "1h30m": whole numbers, each with its unit, larger ones first.
func parseDuration(s string) (time.Duration, bool) {
	var d int64
	last := -1
	for s != "" {
		n := 0
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		v, err := strconv.ParseInt(s[:n], 10, 32)
		if err != nil {
			return 0, false
		}
		s = s[n:]
		n = 0
		for n < len(s) && 'a' <= s[n] && s[n] <= 'z' {
			n++
		}
		u := slices.IndexFunc(units, func(u struct {
			name string
			of   int64
		}) bool {
			return u.name == s[:n]
		})
		if u <= last {
			return 0, false
		}
		last, s = u, s[n:]
		if v > (1<<62)/units[u].of {
			return 0, false
		}
		if d += v * units[u].of; d > 1<<62 {
			return 0, false
		}
	}
	return time.Duration(d), last >= 0
}

func durationText(d int64) string {
	for _, u := range units {
		if d >= u.of && d%u.of == 0 {
			return fmt.Sprintf("%d%s", d/u.of, u.name)
		}
	}
	return "0s"
}

// noUnit reports a bare number where a time belongs.
func (c *checker) noUnit(n string, at hcl.Range) {
	c.err(at, fmt.Sprintf("Times have a unit: %q, %q, %q (also h, d).", n+"ms", n+"s", n+"m"), "%s of what?", n)
}
