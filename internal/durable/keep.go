package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrDamaged says of a file that it is not what was written to it.
var ErrDamaged = errors.New("it is damaged")

// Keep makes path hold v as JSON, behind a line with the SHA-256 of all that
// follows it: a byte that changes on the disk is noticed, and never believed.
func (d Disk) Keep(path string, v any) error { return d.keep(path, v, true) }

// KeepForBoot is Keep of what a reboot makes void: a kill leaves the old or the new,
// and nothing waits for the disk.
func (d Disk) KeepForBoot(path string, v any) error { return d.keep(path, v, false) }

func (d Disk) keep(path string, v any, lasting bool) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	b = append(b, '\n')
	sum := sha256.Sum256(b)
	b = append([]byte(hex.EncodeToString(sum[:])+"\n"), b...)
	return d.replace(path, Private, lasting, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// Kept reads what Keep wrote into v, which stays as it is where no file is there
// (no error) or it is ErrDamaged. It changes nothing on the disk.
func Kept(path string, v any) error {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.EIO):
		return fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	case err != nil:
		return fmt.Errorf("read what is stored: %w", err)
	}
	line, rest, _ := bytes.Cut(b, []byte{'\n'})
	if sum := sha256.Sum256(rest); string(line) != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("%s: %w: its checksum is another", path, ErrDamaged)
	}
	if err := json.Unmarshal(rest, v); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	return nil
}

// Recover is Kept for the one who writes the file: what is damaged is moved aside,
// for a person to look at, so that it is met once. The error says where it is.
func (d Disk) Recover(path string, v any) error {
	err := Kept(path, v)
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	bad, aerr := d.Aside(path)
	if aerr != nil {
		return errors.Join(err, aerr)
	}
	return fmt.Errorf("%w; it is kept as %s", err, bad)
}
