package main

import "testing"

// A loop that does not take what it should is nothing to compare with.
func TestNominal(t *testing.T) {
	twenty := func(worst float64) []float64 {
		out := make([]float64, enough)
		for i := range out {
			out[i] = worst * float64(i+1) / enough
		}
		return out
	}
	loop := rival{title: "a loop", most: 7}
	for _, c := range []struct {
		name   string
		r      rival
		notice []float64
		ok     bool
	}{
		{"as it should be", loop, twenty(6.99), true},
		{"a little late", loop, twenty(7.4), true},
		{"late", loop, twenty(7.6), false},
		{"too good", loop, twenty(4.9), false},
		{"too few to tell", loop, twenty(4.9)[:enough-1], true},
		{"nothing nominal", rival{title: "weir"}, twenty(0.9), true},
	} {
		if err := c.r.nominal(c.notice); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
