package ra

import (
	"os"
	"testing"

	"weir/internal/netns/netnstest"
	"weir/internal/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(worker.Main(os.Args[2:], Worker))
	}
	netnstest.Main(m)
}
