package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noWords,
		RunE: func(c *cobra.Command, _ []string) error {
			return say(c.OutOrStdout(), "weir %s %s/%s %s\n", theVersion(), runtime.GOOS, runtime.GOARCH, runtime.Version())
		},
	}
}

// version is set by the linker (see the Makefile).
var version string

// theVersion is the linker's, else the module's where it was installed as one,
// else the commit it was built from.
func theVersion() string {
	if version != "" {
		return version
	}
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := bi.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	rev, dirty := "", ""
	for _, s := range bi.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			rev = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if rev == "" {
		return "devel"
	}
	return rev + dirty
}
