package dns

import (
	"slices"
	"time"
)

const (
	firstPatience = 300 * time.Millisecond // with an upstream of unknown round trip
	minPatience   = 100 * time.Millisecond
	maxPatience   = 400 * time.Millisecond // two silent upstreams cost a client a second at most
	maxRest       = time.Minute
)

// health is what is known of an upstream. Its methods are pure but for
// themselves: time comes in.
type health struct {
	misses  int       // in a row
	rest    time.Time // not asked first before then; zero: well
	rtt     time.Duration
	err     string // why the last one failed
	answers uint64
}

// answered books an answer.
func (h *health) answered(rtt time.Duration) {
	h.misses, h.rest, h.err = 0, time.Time{}, ""
	h.answers++
	if h.rtt == 0 {
		h.rtt = rtt
	}
	h.rtt += (rtt - h.rtt) / 8 // RFC 6298's smoothing
}

// missed books a question that got no answer in time. One may be the name's
// fault; from the second in a row on the upstream rests, twice as long each time.
func (h *health) missed(now time.Time, why string) {
	h.misses++
	h.err = why
	if h.misses < 2 {
		return
	}
	rest := time.Second << min(h.misses-2, 6)
	h.rest = now.Add(min(rest, maxRest))
}

// resting tells whether others are to be asked before this one.
func (h *health) resting(now time.Time) bool { return now.Before(h.rest) }

// patience is how long to wait for an answer before another is asked as well.
func (h *health) patience() time.Duration {
	if h.rtt == 0 {
		return firstPatience
	}
	return min(max(3*h.rtt, minPatience), maxPatience)
}

// order returns the upstreams' indexes in the order to ask them: as preferred,
// but those that rest last, the one whose rest ends soonest first among them.
func order(now time.Time, hs []*health) []int {
	is := make([]int, len(hs))
	for i := range is {
		is[i] = i
	}
	slices.SortStableFunc(is, func(a, b int) int {
		ra, rb := hs[a].resting(now), hs[b].resting(now)
		switch {
		case ra && rb:
			return hs[a].rest.Compare(hs[b].rest)
		case ra:
			return 1
		case rb:
			return -1
		}
		return 0
	})
	return is
}
