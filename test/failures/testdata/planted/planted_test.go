// Package planted has tests that fail, in each way a test can, if PLANTED says
// which: for the test of what tells of them.
package planted

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func planted(how string) bool { return os.Getenv("PLANTED") == how }

func TestWell(t *testing.T) { t.Log("all is well") }

func TestError(t *testing.T) {
	t.Log("at first all is well")
	if planted("error") {
		t.Error("got 3, want 4")
		// What is told at the end of a case: a long log, below the error.
		long := "the daemon's log:"
		for n := range 100 {
			long += fmt.Sprintf("\nline %d", n)
		}
		t.Log(long)
	}
}

// TestSide has failing subtests beside others that speak at the same time.
func TestSide(t *testing.T) {
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			for range 3 {
				t.Log("side", n)
			}
			if planted("side") && n%2 == 1 {
				t.Errorf("side %d is wrong", n)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	if planted("panic") {
		var m map[string]int
		m[t.Name()] = 1
	}
}

func TestHang(*testing.T) {
	if planted("hang") {
		time.Sleep(time.Hour)
	}
}
