// Command failures reads the output of go test, with or without -v, and ends a
// log with what matters of it: each test that failed with the last it said, then
// their names alone, so that a log of which only the end is kept tells.
//
//	failures LOG
//
// Its exit status is 1 if the log holds no failure, which is then not go test's.
// It needs nothing of weir's, so that it also tells of a weir that does not build.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// What is told of one test at most. A message is what one call of t.Error or
// t.Log printed: its first line begins with a file and a line number.
const (
	lastMessages = 6
	messageLines = 5
	lineLength   = 240
)

// failure is a test that failed, or a package (test is "") that did without one.
type failure struct {
	pkg, test string
	said      []string // the lines of its own output
}

var (
	begins  = regexp.MustCompile(`^=== (?:RUN|PAUSE|CONT|NAME) +(\S*)`)
	verdict = regexp.MustCompile(`^( *)--- (PASS|FAIL|SKIP): (\S+)`)
	another = regexp.MustCompile(`^@@PACKAGE (\S+)`) // the next test binary in the virtual machine, see test/vm-run
	ended   = regexp.MustCompile(`^(ok|FAIL)\s+(\S+/\S+)(.*)`)
	build   = regexp.MustCompile(`^# (\S+)`)
	place   = regexp.MustCompile(`^\s*[\w./-]+\.go:\d+: `)
	frame   = regexp.MustCompile(`^\s*(=== |--- (PASS|FAIL|SKIP): |PASS$|FAIL$|exit status \d+$|ok\s+\S+/)`)
)

// reader is a package's output as far as it is read.
type reader struct {
	test   string              // who speaks; "": nobody in particular
	said   map[string][]string // by test
	failed []string            // in the order in which they ended
	top    map[string]bool     // those that are no subtests
}

func (r *reader) clear() { *r = reader{said: map[string][]string{}, top: map[string]bool{}} }

// read returns what failed, in the log's order.
func read(log io.Reader) ([]failure, error) {
	var out []failure
	var r reader
	r.clear()
	built := map[string][]string{} // what the compiler said, by package
	building, binary := "", ""
	// A test binary that runs without the go tool says of no package that it failed.
	alone := func() {
		if len(r.top) > 0 {
			out = append(out, r.failures(binary, "", built)...)
		}
		r.clear()
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := ended.FindStringSubmatch(line); m != nil {
			if m[1] == "FAIL" {
				out = append(out, r.failures(m[2], m[3], built)...)
			}
			r.clear()
			building = ""
			continue
		}
		if m := another.FindStringSubmatch(line); m != nil {
			alone()
			binary = m[1]
			continue
		}
		if m := build.FindStringSubmatch(line); m != nil {
			building = m[1]
			continue
		}
		if m := begins.FindStringSubmatch(line); m != nil {
			r.test, building = m[1], ""
			continue
		}
		if m := verdict.FindStringSubmatch(line); m != nil {
			r.test, building = m[3], ""
			if m[2] == "FAIL" {
				if m[1] == "" {
					r.top[m[3]] = true
				}
				if !slices.Contains(r.failed, m[3]) { // a test's own process may have said so
					r.failed = append(r.failed, m[3])
				}
			}
			continue
		}
		if building != "" {
			built[building] = append(built[building], line)
			continue
		}
		r.said[r.test] = append(r.said[r.test], line)
	}
	alone()
	return out, lines.Err()
}

// failures are those of a package that has ended, how as rest says.
func (r *reader) failures(pkg, rest string, built map[string][]string) []failure {
	if strings.Contains(rest, "[build failed]") || strings.Contains(rest, "[setup failed]") {
		return []failure{{pkg: pkg, said: built[pkg]}}
	}
	var out []failure
	for _, test := range r.failed {
		top, _, _ := strings.Cut(test, "/")
		inner := slices.ContainsFunc(r.failed, func(t string) bool { return strings.HasPrefix(t, test+"/") })
		if said := messages(r.said[test]); r.top[top] && (!inner || len(said) > 0) {
			out = append(out, failure{pkg, test, r.said[test]})
		}
	}
	if len(out) > 0 {
		return out
	}
	// It ended in the midst of a test: what a panic says first tells most.
	for _, said := range append([][]string{r.said[r.test]}, r.said[""]) {
		for i, l := range said {
			if strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") {
				return []failure{{pkg, r.test, said[i:min(len(said), i+lastMessages*messageLines)]}}
			}
		}
	}
	return []failure{{pkg, r.test, r.said[r.test]}}
}

// messages puts lines together to messages, without the words of go test itself
// and without the place that a test gives to what its own process said.
func messages(lines []string) [][]string {
	var out [][]string
	for _, l := range lines {
		if p := place.FindString(l); p != "" {
			if inner := l[len(p):]; strings.HasPrefix(inner, "    ") || frame.MatchString(inner) {
				l = inner
			}
		}
		switch {
		case frame.MatchString(l) || strings.TrimSpace(l) == "":
		case len(out) == 0 || place.MatchString(l):
			out = append(out, []string{l})
		default:
			out[len(out)-1] = append(out[len(out)-1], l)
		}
	}
	return out
}

func tell(out io.Writer, all []failure) {
	names := make([]string, 0, len(all))
	for _, f := range all {
		name := strings.TrimSpace(f.pkg + " " + f.test)
		names = append(names, name)
		fmt.Fprintf(out, "--- %s, which failed, said last:\n", name)
		told := messages(f.said)
		for _, m := range told[max(0, len(told)-lastMessages):] {
			for _, l := range m[:min(len(m), messageLines)] {
				if r := []rune(l); len(r) > lineLength {
					l = string(r[:lineLength]) + " ..."
				}
				fmt.Fprintf(out, "    %s\n", strings.TrimRight(l, " \t"))
			}
			if more := len(m) - messageLines; more > 0 {
				fmt.Fprintf(out, "        ... and %d lines more\n", more)
			}
		}
	}
	fmt.Fprintf(out, "failed (%d):\n  %s\n", len(names), strings.Join(names, "\n  "))
}

func run(args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: failures LOG")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := read(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s holds no failed test", args[0])
	}
	tell(out, all)
	return nil
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "failures:", err)
		os.Exit(1)
	}
}
