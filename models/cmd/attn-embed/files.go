package main

import (
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

// endings are of files that folders are searched for.
var endings = []string{".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"}

// file is an image, before and after it is read.
type file struct {
	path   string
	pixels int
	image  image.Image
	err    error
}

// failure is a file that cannot be read.
type failure struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// findImages returns files and the images in folders, in the order of their names. What cannot be
// looked into has an error.
func findImages(paths []string) (all []*file, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			all = append(all, &file{path: path})
			continue
		}
		found := len(all)
		err = fs.WalkDir(os.DirFS(path), ".", func(name string, d fs.DirEntry, err error) error {
			full := filepath.Join(path, filepath.FromSlash(name))
			if err != nil || !d.IsDir() && slices.Contains(endings, strings.ToLower(filepath.Ext(name))) {
				all = append(all, &file{path: full, err: pathless(err)})
			}
			return nil
		})
		if err == nil && len(all) == found {
			err = fmt.Errorf("there are no images in %q, want files that end in %s", path,
				strings.Join(endings, ", "))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// The bounds of package embed: pixels of a side, and of an image.
const mostSide, mostPixels = 1 << 14, 1 << 26

// readBatch reads some images, on several threads: as many as fit into memory together.
func readBatch(files []*file, workers int) []*file {
	const most = 32
	n, pixels := 0, 0
	for n < min(most, len(files)) {
		f := files[n]
		if f.measure(); n > 0 && pixels+f.pixels > mostPixels {
			break
		}
		n, pixels = n+1, pixels+f.pixels
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, n) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				files[i].decode()
			}
		})
	}
	group.Wait()
	return files[:n]
}

// open calls read with the file, which must be a regular one: others may never end.
func (f *file) open(read func(r io.Reader) error) error {
	info, err := os.Stat(f.path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return pathless(err)
	}
	in, err := os.Open(f.path)
	if err != nil {
		return pathless(err)
	}
	return errors.Join(read(in), in.Close())
}

// pathless is an error without the path, which stands before it.
func pathless(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// measure reads the size of the image, without memory for its pixels.
func (f *file) measure() {
	if f.err != nil || f.pixels > 0 {
		return
	}
	f.err = f.open(func(r io.Reader) error {
		c, _, err := image.DecodeConfig(r)
		if err == nil && (min(c.Width, c.Height) < 1 || max(c.Width, c.Height) > mostSide ||
			c.Width*c.Height > mostPixels) {
			err = fmt.Errorf("it has %d × %d pixels, want sides of 1 to %d, and at most %d pixels",
				c.Width, c.Height, mostSide, mostPixels)
		}
		f.pixels = c.Width * c.Height
		return err
	})
	if f.err != nil {
		f.pixels = 0
	}
}

// decode reads the image.
func (f *file) decode() {
	if f.err != nil {
		return
	}
	f.err = f.open(func(r io.Reader) (err error) {
		f.image, _, err = image.Decode(r)
		if err == nil && f.image.Bounds().Empty() {
			err = errors.New("it has no pixels")
		}
		return err
	})
}
