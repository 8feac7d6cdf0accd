package gateway

import "weir/internal/worker"

// Worker is the whole life of a child: `weir worker` with args behind it. It
// returns the exit status.
func Worker(args []string) int { return worker.Main(args) }
