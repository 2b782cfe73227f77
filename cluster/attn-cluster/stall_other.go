//go:build !unix

package main

import (
	"errors"
	"os"
)

// canStall reports whether processes can be stopped and continued.
const canStall = false

func stall(*os.Process) error  { return errors.ErrUnsupported }
func resume(*os.Process) error { return errors.ErrUnsupported }
