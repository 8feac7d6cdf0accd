package netnstest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Missing skips tb because the machine lacks feature, for the reason err. It
// fails tb instead where the environment's WEIR_REQUIRE, a list separated by
// commas or spaces, names the feature or "all": so a machine that should have
// it can't lose a test quietly.
func Missing(tb testing.TB, feature string, err error) {
	tb.Helper()
	if required(os.Getenv("WEIR_REQUIRE"), feature) {
		tb.Fatalf("%s is required here: %v", feature, err)
	}
	tb.Skipf("needs %s: %v", feature, err)
}

func required(list, feature string) bool {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(words, feature) || slices.Contains(words, "all")
}
