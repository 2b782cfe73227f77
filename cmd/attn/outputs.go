package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// outputs are files that appear together or not at all: each is written to a
// temporary file beside its target, and the renames come last.
type outputs struct {
	pending []pending
	stop    func() // watching for interrupts
}

// pending is a file that is to become path.
type pending struct {
	temp, path string
	old        string // what it replaces, under another name, if the file system can do that
	fresh      bool   // it replaces nothing
}

// writable tells early what would fail late: it creates and removes the temporary file.
func writable(path string) error {
	f, err := createTemp(resolve(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// sameFile reports whether two paths lead to the same file, or would if it existed.
func sameFile(a, b string) bool {
	if b == "" {
		return false
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	return resolve(a) == resolve(b)
}

// resolve returns a path without links in it. If the file does not exist, its folder counts.
func resolve(path string) string {
	for range 40 { // a link may lead to nothing yet
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		path = whole
	} else if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// add writes one file, which commit will move into place.
func (o *outputs) add(path string, write func(io.Writer) error) error {
	target := path
	path = resolve(path) // a link stays one
	f, err := createTemp(path)
	if err == nil {
		o.keep(pending{temp: f.Name(), path: path})
		err = errors.Join(write(f), f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", target, cause(err))
	}
	return nil
}

// createTemp creates a hidden file beside path. A file that is to be replaced keeps its permissions.
func createTemp(path string) (*os.File, error) {
	old, err := os.Stat(path)
	if err == nil {
		switch {
		case !old.Mode().IsRegular():
			return nil, errors.New("exists and is not a regular file")
		case old.Mode().Perm()&0o222 == 0:
			return nil, errors.New("exists and is write-protected")
		}
	}
	name := fmt.Sprintf(".attn.%08x.tmp", rand.Uint32())
	// What is new has the permissions that umask leaves, other than os.CreateTemp's files.
	f, createErr := os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if createErr != nil || err != nil {
		return f, createErr
	}
	if err := f.Chmod(old.Mode().Perm()); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// commit moves all files into place. If one cannot be moved, those before are put back.
func (o *outputs) commit() error {
	for i := range o.pending {
		f := &o.pending[i]
		old := f.temp + ".old"
		switch err := os.Link(f.path, old); {
		case err == nil:
			f.old = old
		case errors.Is(err, fs.ErrNotExist):
			f.fresh = true
		}
		if err := os.Rename(f.temp, f.path); err != nil {
			o.undo(i)
			return fmt.Errorf("%s: %w", f.path, cause(err))
		}
	}
	return nil
}

// undo takes the first n files back out of their places.
func (o *outputs) undo(n int) {
	for _, f := range o.pending[:n] {
		switch {
		case f.old != "":
			os.Rename(f.old, f.path)
		case f.fresh:
			os.Remove(f.path)
		}
	}
}

// keep notes a temporary file. If the program is interrupted, it is removed.
func (o *outputs) keep(f pending) {
	if o.stop != nil {
		o.stop()
	}
	o.pending = append(o.pending, f)
	interrupts, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	go func(files []pending) {
		select {
		case <-interrupts:
			remove(files)
			os.Exit(1)
		case <-done:
		}
	}(o.pending)
	o.stop = func() { signal.Stop(interrupts); close(done) }
}

// discard removes what was not committed, and what was replaced.
func (o *outputs) discard() {
	if o.stop != nil {
		o.stop()
		o.stop = nil
	}
	remove(o.pending)
}

func remove(files []pending) {
	for _, f := range files {
		os.Remove(f.temp)
		os.Remove(f.temp + ".old")
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
