package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/api"
	"weir/internal/config"
)

// maxSource bounds a file: a house's has some kilobytes, and the daemon takes no
// larger request.
const maxSource = 2 << 20

// stdin is what a person calls the standard input, and stdinName what messages do.
const (
	stdin     = "-"
	stdinName = "<stdin>"
)

// notStdin is the error of a command that has to find the file again later.
func notStdin(path, why string) error {
	if path == stdin {
		return wrong(fmt.Errorf("- is the standard input, and %s: name a file", why))
	}
	return nil
}

// readSource reads FILE, a folder's *.hcl in name order, or the standard input, "-".
// Files are named in messages as the user would name them.
func readSource(ctx context.Context, path string) ([]config.File, error) {
	if path == stdin {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("read the standard input: where is this: %w", err)
		}
		src, err := readWhole(ctx, stdinName, func() ([]byte, error) { return bounded(stdinName, os.Stdin) })
		return []config.File{{Name: stdinName, Src: src, Dir: dir}}, err
	}
	if strings.TrimSpace(path) == "" {
		return nil, wrong(errors.New("the file's name is empty: a file or a folder is needed (was a variable of a script not set?)"))
	}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong(fmt.Errorf("there is no file %s", path))
	case err != nil:
		return nil, wrong(fmt.Errorf("read the file: %w", err))
	case fi.IsDir():
		return readFolder(ctx, path)
	}
	f, err := readOne(ctx, path, fi.Mode())
	if err != nil {
		return nil, err
	}
	return []config.File{f}, nil
}

// readFolder reads what a shell would call *.hcl in the folder path: not the
// hidden files, which editors lay beside those that are being edited.
func readFolder(ctx context.Context, path string) ([]config.File, error) {
	entries, err := os.ReadDir(path) // in name order
	if err != nil {
		return nil, wrong(fmt.Errorf("read the folder: %w", err))
	}
	var files []config.File
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".hcl" {
			continue
		}
		name := filepath.Join(path, e.Name())
		fi, err := os.Stat(name)
		if err != nil {
			return nil, wrong(fmt.Errorf("read the folder %s: %w", path, err))
		}
		if fi.Mode()&fs.ModeNamedPipe != 0 {
			return nil, wrong(fmt.Errorf("%s is a pipe: a folder's *.hcl must be files, as the next start of the machine reads them again", name))
		}
		f, err := readOne(ctx, name, fi.Mode())
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, wrong(fmt.Errorf("no *.hcl is in the folder %s", path))
	}
	return files, nil
}

// readOne reads a file or a pipe, which need not end and may have nothing for us
// yet, until ctx ends. Devices are not opened: for some, that alone does something.
func readOne(ctx context.Context, name string, mode fs.FileMode) (config.File, error) {
	if what := unreadable(mode); what != "" {
		return config.File{}, wrong(fmt.Errorf("%s is %s: a file, a pipe, or a folder with *.hcl files is needed", name, what))
	}
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return config.File{}, fmt.Errorf("read the file: where is %s: %w", name, err)
	}
	src, err := readWhole(ctx, name, func() ([]byte, error) { return readBounded(name) })
	return config.File{Name: name, Src: src, Dir: dir}, err
}

// readWhole has read read what is called name, until ctx ends.
func readWhole(ctx context.Context, name string, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		src []byte
		err error
	}
	done := make(chan result, 1)
	go func() { // may wait for a pipe's other end for ever: then the process ends around it
		src, err := read()
		done <- result{src, err}
	}()
	select {
	case r := <-done:
		return r.src, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read the file: %s had not ended when this was told to stop", name)
	}
}

// unreadable says what a thing of this mode is, if no text can be expected of it.
func unreadable(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return ""
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, wrong(fmt.Errorf("read the file: %w", err))
	}
	defer f.Close()
	return bounded(name, f)
}

func bounded(name string, f io.Reader) ([]byte, error) {
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
func parse(ctx context.Context, path string, stderr io.Writer) (*config.Config, []config.File, error) {
	files, err := readSource(ctx, path)
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
		out[i] = api.Source{Name: f.Name, Text: string(f.Src), Dir: f.Dir}
	}
	return out
}
