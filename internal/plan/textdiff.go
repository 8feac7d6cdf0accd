package plan

import "strings"

// lineDiff shows how old becomes new, a line each: "+ " added, "- " removed,
// "  " kept. Of what is kept only the two lines around a change are shown, and
// of the rest the line that opens the block they stand in.
func lineDiff(old, new string) []string {
	a, b := lines(old), lines(new)
	if len(a) == 0 {
		out := make([]string, len(b))
		for i, l := range b {
			out[i] = "+ " + l
		}
		return out
	}
	return around(edits(a, b))
}

func lines(s string) []string {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(s, "\t", "  "), "\n")
}

// edits is a shortest edit script by Myers' algorithm ("An O(ND) Difference
// Algorithm", 1986), after taking off what both begin and end with. Texts that
// differ in more than maxEdits lines are shown as all removed, all added.
func edits(a, b []string) []string {
	var head, tail []string
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, "  "+a[0])
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, "  "+a[len(a)-1])
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	out := append(head, middle(a, b)...)
	for i := len(tail) - 1; i >= 0; i-- {
		out = append(out, tail[i])
	}
	return out
}

const maxEdits = 2000

func middle(a, b []string) []string {
	n, m := len(a), len(b)
	var trace [][]int
	v := map[int]int{1: 0}
	limit := min(n+m, maxEdits)
	for d := 0; d <= limit; d++ {
		row := make([]int, 2*d+1)
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && v[k-1] < v[k+1] {
				x = v[k+1]
			} else {
				x = v[k-1] + 1
			}
			y := x - k
			for x < n && y < m && a[x] == b[y] {
				x, y = x+1, y+1
			}
			v[k], row[k+d] = x, x
			if x >= n && y >= m {
				return walk(a, b, append(trace, row))
			}
		}
		trace = append(trace, row)
	}
	var out []string
	for _, l := range a {
		out = append(out, "- "+l)
	}
	for _, l := range b {
		out = append(out, "+ "+l)
	}
	return out
}

// walk goes back through the furthest points of each round.
func walk(a, b []string, trace [][]int) []string {
	var rev []string
	x, y := len(a), len(b)
	for d := len(trace) - 1; d > 0; d-- {
		prev := trace[d-1]
		at := func(k int) int {
			if i := k + d - 1; i >= 0 && i < len(prev) {
				return prev[i]
			}
			return -1
		}
		k := x - y
		pk := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			pk = k + 1
		}
		px := at(pk)
		py := px - pk
		for x > px && y > py {
			x, y = x-1, y-1
			rev = append(rev, "  "+a[x])
		}
		if x > px {
			x--
			rev = append(rev, "- "+a[x])
		} else if y > py {
			y--
			rev = append(rev, "+ "+b[y])
		}
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		rev = append(rev, "  "+a[x])
	}
	out := make([]string, len(rev))
	for i, l := range rev {
		out[len(rev)-1-i] = l
	}
	return out
}

// around keeps changed lines, two lines on either side, and the nearest line
// above that opens a block.
func around(all []string) []string {
	keep := make([]bool, len(all))
	for i, l := range all {
		if l[0] == ' ' {
			continue
		}
		for j := max(0, i-2); j <= min(len(all)-1, i+2); j++ {
			keep[j] = true
		}
		for j := i; j >= 0; j-- {
			if strings.HasSuffix(all[j], "{") && !strings.HasPrefix(all[j][2:], "table") {
				keep[j] = true
				break
			}
		}
	}
	var out []string
	gap := false
	for i, l := range all {
		if !keep[i] {
			gap = true
			continue
		}
		if gap && len(out) > 0 {
			out = append(out, "  ...")
		}
		gap = false
		out = append(out, l)
	}
	return out
}
