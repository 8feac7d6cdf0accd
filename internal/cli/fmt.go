package cli

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weir/internal/config"
)

func fmtCmd() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "fmt [-w] FILE|DIR",
		Short: "Lay the file out in the one usual way",
		Long: `Prints the file with its usual spaces and alignment; comments stay. With -w the
file itself is rewritten, and the names of those that changed are printed.`,
		Example: `  weir fmt gateway.hcl
  weir fmt -w /etc/weir`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			files, err := readSource(c.Context(), args[0])
			if err != nil {
				return err
			}
			for _, f := range files {
				out := config.Format(f.Src)
				if !write {
					if _, err := c.OutOrStdout().Write(out); err != nil {
						return err
					}
					continue
				}
				if bytes.Equal(out, f.Src) {
					continue
				}
				if err := rewrite(f.Name, out); err != nil {
					return err
				}
				fmt.Fprintln(c.OutOrStdout(), f.Name)
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&write, "write", "w", false, "rewrite the file")
	return c
}

// rewrite replaces what name holds. A symbolic link stays one, and a file its
// mode and owner: the text goes into the file that is there. A power cut in
// between could cost the text, so a copy stands beside it until it is written.
func rewrite(name string, text []byte) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", name, err)
	}
	backup := name + "~"
	if err := os.WriteFile(backup, old, 0o600); err != nil {
		return fmt.Errorf("keep a copy of %s while it is rewritten: %w", name, err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", name, err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("rewrite %s: %w; its old text is in %s", name, err, backup)
	}
	return os.Remove(backup)
}
