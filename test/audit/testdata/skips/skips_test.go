// Package skips has tests that one machine can run and another can't, for the
// audit's own test.
package skips

import (
	"os"
	"testing"
)

func needs(t *testing.T, feature string) {
	if os.Getenv("AUDIT_HAS") != feature {
		t.Skipf("needs %s", feature)
	}
}

func TestAnywhere(*testing.T) {}

func TestVLAN(t *testing.T) { needs(t, "vlan") }

func TestTable(t *testing.T) {
	t.Run("plain", func(*testing.T) {})
	t.Run("tagged", func(t *testing.T) { needs(t, "vlan") })
}
