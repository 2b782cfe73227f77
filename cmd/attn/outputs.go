package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// outputs are files that appear together or not at all: each is written to a
// temporary file beside its target, and the renames come last.
type outputs struct {
	pending []pending
}

type pending struct{ temp, path string }

// writable tells early what would fail late: it creates and removes the temporary file.
func writable(path string) error {
	f, err := createTemp(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// add writes one file, which commit will move into place.
func (o *outputs) add(path string, write func(io.Writer) error) error {
	f, err := createTemp(path)
	if err == nil {
		o.pending = append(o.pending, pending{f.Name(), path})
		err = errors.Join(write(f), f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	return nil
}

// createTemp creates a hidden file beside path. A file that is to be replaced keeps its permissions.
func createTemp(path string) (*os.File, error) {
	mode := fs.FileMode(0o666) // before umask, which os.CreateTemp's files do not follow
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return nil, errors.New("exists and is not a regular file")
		}
		mode = info.Mode().Perm()
	}
	name := fmt.Sprintf(".%s.%08x.tmp", filepath.Base(path), rand.Uint32())
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// commit moves all files into place.
func (o *outputs) commit() error {
	for len(o.pending) > 0 {
		f := o.pending[0]
		if err := os.Rename(f.temp, f.path); err != nil {
			return fmt.Errorf("%s: %w", f.path, cause(err))
		}
		o.pending = o.pending[1:]
	}
	return nil
}

// discard removes what was not committed.
func (o *outputs) discard() {
	for _, f := range o.pending {
		os.Remove(f.temp)
	}
}

// cause strips the name of the temporary file from an error.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// writeBytes is for add: it writes what is ready in memory.
func writeBytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := bytes.NewReader(b).WriteTo(w)
		return err
	}
}
