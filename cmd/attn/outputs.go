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
	"runtime"
	"strings"
	"sync"
)

// outputs are files that appear together or not at all: each is written to a temporary file next to
// its target, and all are renamed at the end.
type outputs struct {
	mu      sync.Mutex // held while files appear, move or vanish: a signal waits until all have moved
	pending []pending
	stop    func() // watching for signals
}

// pending is a temporary file that will become path.
type pending struct {
	file       *os.File // temporary
	temp, path string
	old        string // the replaced file under another name, if the file system can do that
	fresh      bool   // it replaces nothing
}

// writable finds errors early: it creates and removes the temporary file.
func writable(path string) error {
	var o outputs
	defer o.discard()
	_, err := o.create(path)
	return err
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
	a, errX = resolve(a)
	b, errY = resolve(b)
	return errX == nil && errY == nil && samePath(a, b)
}

// foldsCase: most file systems of Windows and macOS ignore case.
var foldsCase = runtime.GOOS == "windows" || runtime.GOOS == "darwin"

func samePath(a, b string) bool { return a == b || foldsCase && strings.EqualFold(a, b) }

var errFolder = errors.New("names a folder, want a file")

// resolve returns a path without links. The file need not exist, but its folder must.
func resolve(path string) (string, error) {
	for range 40 { // the target of a link may not exist yet
		folder, name := filepath.Split(path)
		if name == "" || name == "." || name == ".." {
			return "", errFolder
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = folder + to // not by Join: the meaning of .. depends on links
		}
		path = to
	}
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		return filepath.Abs(whole)
	}
	folder, name := filepath.Split(path)
	if folder == "" {
		folder = "."
	}
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", cause(err)
	}
	return filepath.Abs(filepath.Join(folder, name))
}

// add writes one file, which commit will move into place.
func (o *outputs) add(path string, write func(io.Writer) error) error {
	f, err := o.create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	return nil
}

// create creates a temporary file that will be removed unless it is committed.
func (o *outputs) create(path string) (*os.File, error) {
	if o.stop == nil {
		o.stop = onSignal(o.abandon)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	target, err := resolve(path) // a link stays one
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := createTemp(target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	o.pending = append(o.pending, pending{file: f, temp: f.Name(), path: target})
	return f, nil
}

// createTemp creates a hidden file beside path. A file that is to be replaced keeps its
// permissions.
func createTemp(path string) (*os.File, error) {
	old, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil: // the name is too long, for example
		return nil, err
	case !old.Mode().IsRegular():
		return nil, errors.New("exists and is not a regular file")
	case old.Mode().Perm()&0o222 == 0:
		return nil, errors.New("exists and is write-protected")
	}
	name := fmt.Sprintf(".attn.%08x.tmp", rand.Uint32())
	// New files have the permissions of umask, unlike os.CreateTemp's files.
	f, createErr := os.OpenFile(filepath.Join(filepath.Dir(path), name),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if createErr != nil || err != nil {
		return f, createErr
	}
	if err := f.Chmod(old.Mode().Perm()); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// commit moves all files into place. If one cannot be moved, it undoes the earlier moves.
func (o *outputs) commit() error {
	o.mu.Lock()
	defer o.mu.Unlock()
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

// undo reverses the moves of the first n files.
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

// discard removes uncommitted files and replaced ones.
func (o *outputs) discard() {
	if o.stop != nil {
		o.stop()
		o.stop = nil
	}
	o.remove()
}

// abandon is discard for a program that is about to end: no file appears any more.
func (o *outputs) abandon() {
	o.mu.Lock() // for good
	o.remove()
}

func (o *outputs) remove() {
	for _, f := range o.pending {
		f.file.Close() // Windows does not remove an open file
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
