// Command weir turns a Linux machine and one file into a gateway.
package main

import (
	"os"

	"weir/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
