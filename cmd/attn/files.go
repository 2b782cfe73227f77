package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
	"github.com/seed-1415985d/attn/internal/flags"
)

// fileFlag is a flag that names a file.
type fileFlag struct{ name, path string }

// check verifies that the file can be written, and that a picture has a known format.
func (o fileFlag) check() error {
	err := writable(o.path)
	switch {
	case o.path == "-":
		return flags.Errorf("%s is -, want a file: results do not go to standard output (./- is a file "+
			"of this name)", o.name)
	case errors.Is(err, errFolder):
		return flags.Errorf("%s is %s, which %w", o.name, o.path, errFolder)
	case err != nil:
		return fmt.Errorf("%s: %w", o.name, err)
	case o.name == "-png":
		if _, err := chart.FormatOf(o.path); err != nil {
			return flags.Errorf("-png %w", err)
		}
	}
	return nil
}

// addPicture is add for a picture in the format of the path's extension.
func (o *outputs) addPicture(path string, draw func(io.Writer, chart.Format) error) error {
	format, err := chart.FormatOf(path)
	if err != nil {
		return err
	}
	return o.add(path, func(w io.Writer) error { return draw(w, format) })
}

// writePicture writes a picture and nothing else.
func writePicture(path string, draw func(io.Writer, chart.Format) error) error {
	var files outputs
	defer files.discard()
	if err := files.addPicture(path, draw); err != nil {
		return err
	}
	return files.commit()
}
