// Command audit reads the output of go test -v and tells which tests ran, and
// judges what a machine of another kernel printed.
//
//	audit skipped HOST          a line per package: its import path and the names, joined by |, of tests skipped
//	audit both HOST VM          fails unless each test skipped in HOST passed in VM
//	audit rehearsed VM          prints and judges the rehearsal in VM: by what came about, not by when
//
// A test that is skipped in every place it is run in looks green and shows
// nothing; this is what finds it. Subtests count by themselves, so that a table
// of which one row needs another kernel is held as well.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// results maps "package test" to PASS, FAIL or SKIP.
type results map[string]string

var (
	verdict = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	ended   = regexp.MustCompile(`^(?:ok|FAIL)\s+(weir/\S+)`)
	begins  = regexp.MustCompile(`^@@PACKAGE (\S+)`)
)

// read parses go test -v output. There a package's name follows its tests; in
// the virtual machine, where test binaries run one after the other, a line
// @@PACKAGE stands before them.
func read(r io.Reader) (results, error) {
	all, pending := results{}, results{}
	pkg := ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := begins.FindStringSubmatch(line); m != nil {
			pkg = m[1]
		} else if m := verdict.FindStringSubmatch(line); m != nil {
			if pkg != "" {
				all[pkg+" "+m[2]] = m[1]
			} else {
				pending[m[2]] = m[1]
			}
		} else if m := ended.FindStringSubmatch(line); m != nil {
			for test, v := range pending {
				all[m[1]+" "+test] = v
			}
			clear(pending)
		}
	}
	return all, lines.Err()
}

func readFile(name string) (results, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}

// skipped lists, by package, the top-level tests to run elsewhere.
func skipped(host results) map[string][]string {
	out := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(host)) {
		if host[key] != "SKIP" {
			continue
		}
		pkg, test, _ := strings.Cut(key, " ")
		test, _, _ = strings.Cut(test, "/")
		if !slices.Contains(out[pkg], test) {
			out[pkg] = append(out[pkg], test)
		}
	}
	return out
}

// nowhere lists the tests that were skipped in host and did not pass in vm.
func nowhere(host, vm results) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(host)) {
		if host[key] == "SKIP" && vm[key] != "PASS" {
			out = append(out, key)
		}
	}
	return out
}

func run(args []string, out io.Writer) error {
	const usage = "usage: audit skipped HOST | audit both HOST VM | audit rehearsed VM"
	if len(args) == 2 && args[0] == "rehearsed" {
		f, err := os.Open(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		return rehearsed(f, out)
	}
	if len(args) < 2 {
		return errors.New(usage)
	}
	host, err := readFile(args[1])
	if err != nil {
		return err
	}
	if len(host) == 0 {
		return fmt.Errorf("%s holds no test: run make test first", args[1])
	}
	switch {
	case args[0] == "skipped" && len(args) == 2:
		todo := skipped(host)
		for _, pkg := range slices.Sorted(maps.Keys(todo)) {
			fmt.Fprintf(out, "%s %s\n", pkg, strings.Join(todo[pkg], "|"))
		}
	case args[0] == "both" && len(args) == 3:
		vm, err := readFile(args[2])
		if err != nil {
			return err
		}
		if missed := nowhere(host, vm); len(missed) > 0 {
			return fmt.Errorf("these tests ran in neither place:\n  %s", strings.Join(missed, "\n  "))
		}
		fmt.Fprintf(out, "%d tests here, %d in the virtual machine; none ran in neither place\n", len(host), len(vm))
	default:
		return errors.New(usage)
	}
	return nil
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}
