// Package regular opens files that have a size and an end.
package regular

import (
	"fmt"
	"os"
)

// Open opens a file for reading. A fifo, a device or a folder is an error: opening a fifo may
// block, and a device may never end.
func Open(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	return f, info, err
}
