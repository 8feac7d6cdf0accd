package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What a flag takes is named by a word in capitals: pflag's own are Go's types, and text
// in backquotes within a sentence is taken for the name as well.
func TestFlagsNameWhatTheyTake(t *testing.T) {
	root := newRoot(io.Discard, io.Discard)
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				t.Errorf("%s --%s takes %q: name it in capitals, in backquotes", c.CommandPath(), f.Name, name)
			}
		})
		for _, s := range c.Commands() {
			look(s)
		}
	}
	look(root)
}
