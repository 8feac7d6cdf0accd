package main

import (
	"slices"
	"strings"
	"testing"
)

const host = `=== RUN   TestVLAN
    link_test.go:10: needs vlan: operation not supported
--- SKIP: TestVLAN (0.00s)
--- PASS: TestBridge (0.10s)
=== RUN   TestTable
    --- PASS: TestTable/here (0.00s)
    --- SKIP: TestTable/there (0.00s)
--- PASS: TestTable (0.00s)
PASS
ok  	weir/internal/kernel	0.2s
--- SKIP: TestBIND (0.00s)
ok  	weir/internal/dns	(cached)
`

func parse(t *testing.T, s string) results {
	t.Helper()
	r, err := read(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSkippedByPackage(t *testing.T) {
	got := skipped(parse(t, host))
	if want := []string{"TestTable", "TestVLAN"}; !slices.Equal(got["weir/internal/kernel"], want) {
		t.Errorf("kernel: %v, want %v", got["weir/internal/kernel"], want)
	}
	if want := []string{"TestBIND"}; !slices.Equal(got["weir/internal/dns"], want) {
		t.Errorf("dns: %v, want %v", got["weir/internal/dns"], want)
	}
}

func TestASkipInBothPlacesIsFound(t *testing.T) {
	vm := `@@PACKAGE weir/internal/kernel
--- PASS: TestVLAN (3.00s)
    --- PASS: TestTable/there (0.00s)
--- PASS: TestTable (0.00s)
@@PACKAGE weir/internal/dns
--- SKIP: TestBIND (0.00s)
`
	got := nowhere(parse(t, host), parse(t, vm))
	if want := []string{"weir/internal/dns TestBIND"}; !slices.Equal(got, want) {
		t.Errorf("in neither place: %v, want %v", got, want)
	}
}
