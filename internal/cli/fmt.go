package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"weir/internal/config"
)

func fmtCmd() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "fmt [-w] FILE|DIR",
		Short: "Lay the file out in the one usual way",
		Long: `Prints the file with its usual spaces and alignment; comments stay. With -w the
file itself is rewritten, and the names of those that changed are printed. A file
that can't be read as blocks and keys is wrong input: what keeps it is said, and no
file is changed.`,
		Example: `  weir fmt gateway.hcl
  weir fmt -w /etc/weir`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if write {
				if err := notStdin(args[0], "can't be rewritten"); err != nil {
					return err
				}
			}
			files, err := readSource(c.Context(), args[0])
			if err != nil {
				return err
			}
			if broken(files, c.ErrOrStderr()) {
				return &status{code: exitWrong}
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
				if err := say(c.OutOrStdout(), "%s\n", f.Name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&write, "write", "w", false, "rewrite the file")
	return c
}

// broken says what keeps files from being laid out, and whether something does.
func broken(files []config.File, stderr io.Writer) bool {
	found := false
	for _, f := range files {
		diags := config.Syntax(f)
		fmt.Fprint(stderr, diags.Format([]config.File{f}))
		found = found || diags.HasErrors()
	}
	return found
}

// rewrite replaces what name holds. A symbolic link stays one, and a file its
// mode and owner: the text goes into the file that is there. A power cut in
// between could cost the text, so a copy stands beside it until it is written,
// under a name that nobody has.
func rewrite(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("rewrite the file: %w", err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return wrong(errors.Join(fmt.Errorf("%s can't be rewritten: it is no file; without -w the text is printed", name), err))
	}
	backup, err := keepCopy(f, name)
	if err != nil {
		return fmt.Errorf("keep a copy of %s while it is rewritten: %w", name, err)
	}
	_, err = f.WriteAt(text, 0)
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("rewrite %s: %w; its old text is in %s", name, err, backup)
	}
	return os.Remove(backup)
}

// keepCopy copies what f, called name, holds into a new file beside it, and returns
// the copy's name.
func keepCopy(f *os.File, name string) (string, error) {
	c, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*~")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(c, f)
	if err = errors.Join(err, c.Sync(), c.Close()); err != nil {
		return "", errors.Join(err, os.Remove(c.Name()))
	}
	return c.Name(), nil
}
