package config

import "strings"

// Nearest returns the one of words that was most likely meant by s, or "".
func Nearest(s string, words []string) string {
	s = strings.ToLower(s)
	best, least := "", min(len(s), 1+max(1, len(s)/3))*2
	for _, w := range words {
		d := 2 * distance(s, strings.ToLower(w))
		if d > 0 && strings.HasPrefix(w, s) {
			d-- // an end is forgotten more easily than a beginning
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, change or swap with
// their neighbour to make a of b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // nobody mistypes that much
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
