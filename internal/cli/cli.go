// Package cli is the command line, a file per command.
package cli

import (
	"fmt"
	"io"
)

// Main runs weir with args (without the program's name) and returns the exit
// status: 0 done, 1 failed, 2 the input is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	fmt.Fprintln(stderr, "weir: no command is there yet")
	return 2
}
