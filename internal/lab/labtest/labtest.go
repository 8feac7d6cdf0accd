// Package labtest gives tests a lab of their own.
//
//	func TestMain(m *testing.M) { labtest.Main(m) }
//
//	func TestForward(t *testing.T) {
//		labtest.In(t, func(t *testing.T, l *lab.Lab) { ... })
//	}
//
// In runs the test again as pid 1 of new namespaces (package lab), as root or
// as anyone else, and skips it aloud (feature "lab") where they can't be had.
package labtest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
	"weir/internal/netns/netnstest"
)

// envIn names the test whose process is a lab.
const envIn = "WEIR_LABTEST"

// Main runs m. In the process of a lab it furnishes the lab first. Labs mostly wait,
// so of the tests that may, three times as many run at once as others would.
func Main(m *testing.M) {
	_ = flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))) // what the command line says goes before it
	if os.Getenv(envIn) != "" {
		if err := lab.Enter(); err != nil {
			fmt.Fprintln(os.Stderr, "labtest:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// In runs f in a lab that ends with it. The test that calls it does nothing
// else.
func In(t *testing.T, f func(t *testing.T, l *lab.Lab)) {
	t.Helper()
	if os.Getenv(envIn) == t.Name() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Until(deadline(t)))
		defer cancel()
		l, err := lab.New(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, l)
		return
	}
	if why := Missing(); why != nil {
		netnstest.Missing(t, "lab", why)
	}
	cmd := lab.Command("-test.run="+pattern(t.Name()), "-test.v", "-test.timeout="+time.Until(deadline(t)).String())
	cmd.Env = append(os.Environ(), envIn+"="+t.Name())
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	runtime.LockOSThread() // the process dies with the thread that started it
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if _, serr := out.Seek(0, 0); serr != nil {
		t.Fatal(serr)
	}
	ran, skipped := false, false
	for s := bufio.NewScanner(out); s.Scan(); {
		line := s.Text()
		ran = ran || strings.HasPrefix(strings.TrimSpace(line), "--- PASS: "+t.Name())
		skipped = skipped || strings.HasPrefix(strings.TrimSpace(line), "--- SKIP: "+t.Name())
		t.Log(line)
	}
	switch {
	case err != nil:
		t.Fatalf("in the lab: %v", err)
	case !ran && !skipped:
		t.Fatal("the lab's process ran no such test")
	case skipped:
		t.Skip("skipped in the lab, see above")
	}
}

// Missing says why there can be no lab here, or nil.
func Missing() error {
	cmd := lab.Command("-test.run=^$")
	cmd.Env = append(os.Environ(), envIn+"=^$")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start a lab: %w: %s", err, out)
	}
	return nil
}

func deadline(t *testing.T) time.Time {
	if d, ok := t.Deadline(); ok {
		return d.Add(-time.Second)
	}
	return time.Now().Add(10 * time.Minute)
}

// Bench runs f in a lab once, as In does, and reports its figures (those it gives
// to b.ReportMetric) as the benchmark's own.
func Bench(b *testing.B, f func(b *testing.B, l *lab.Lab)) {
	b.Helper()
	if os.Getenv(envIn) == b.Name() {
		l, err := lab.New(b.Context(), slog.New(slog.NewTextHandler(os.Stderr, nil)))
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		f(b, l)
		return
	}
	if why := Missing(); why != nil {
		netnstest.Missing(b, "lab", why)
	}
	cmd := lab.Command("-test.run=^$", "-test.bench="+pattern(b.Name()), "-test.benchtime=1x")
	cmd.Env = append(os.Environ(), envIn+"="+b.Name())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("in the lab: %v\n%s", err, out)
	}
	b.ReportMetric(0, "ns/op") // starting a lab is nobody's figure
	// "BenchmarkLink/1514-2  1  0.3 ns/op  200000 frames/s ..."
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], b.Name()) {
			continue
		}
		for i := 2; i+1 < len(words); i += 2 {
			if v, err := strconv.ParseFloat(words[i], 64); err == nil {
				b.ReportMetric(v, words[i+1])
			}
		}
		return
	}
	b.Fatalf("the lab's process has no figures:\n%s", out)
}

// pattern matches exactly the test called name.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
