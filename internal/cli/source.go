package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"weir/internal/api"
	"weir/internal/config"
)

// maxSource bounds a file: a house's has some kilobytes, and the daemon takes no
// larger request.
const maxSource = 2 << 20

// readSource reads FILE, or a folder's *.hcl in name order. Files are named in
// messages as the user would name them.
func readSource(path string) ([]config.File, error) {
	names := []string{path}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong(fmt.Errorf("there is no file %s", path))
	case err != nil:
		return nil, fmt.Errorf("read the file: %w", err)
	case fi.IsDir():
		if names, err = filepath.Glob(filepath.Join(path, "*.hcl")); err != nil {
			return nil, wrong(fmt.Errorf("read the folder %s: %w", path, err))
		}
		if len(names) == 0 {
			return nil, wrong(fmt.Errorf("no *.hcl is in the folder %s", path))
		}
		sort.Strings(names)
	}
	files := make([]config.File, 0, len(names))
	for _, n := range names {
		src, err := readBounded(n)
		if err != nil {
			return nil, err
		}
		files = append(files, config.File{Name: n, Src: src})
	}
	return files, nil
}

// readBounded reads a file that may be a pipe or a device, too, and need not end.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, wrong(fmt.Errorf("read the file: %w", err))
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if len(src) > maxSource {
		return nil, wrong(fmt.Errorf("%s is larger than %d MiB: no gateway's file is", name, maxSource>>20))
	}
	return src, nil
}

// parse reads and checks path. Mistakes and notes go to stderr, as every command
// prints them; with mistakes the error is exit status 2 and has nothing to add.
func parse(path string, stderr io.Writer) (*config.Config, []config.File, error) {
	files, err := readSource(path)
	if err != nil {
		return nil, nil, err
	}
	cfg, diags := config.Parse(files...)
	fmt.Fprint(stderr, diags.Format(files))
	if diags.HasErrors() {
		return nil, files, &status{code: exitWrong}
	}
	return cfg, files, nil
}

// sources is files as they go to the daemon.
func sources(files []config.File) []api.Source {
	out := make([]api.Source, len(files))
	for i, f := range files {
		out[i] = api.Source{Name: f.Name, Text: string(f.Src)}
	}
	return out
}
