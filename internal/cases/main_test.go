package cases

import (
	"os"
	"strings"
	"testing"

	"weir/internal/cli"
	"weir/internal/lab/labtest"
)

// TestMain makes the test's binary weir as well: `run`, `worker` and the others
// are what it is started with by a case, and by the daemon in it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		inside()
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	labtest.Main(m)
}
