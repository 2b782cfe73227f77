//go:build !unix

package main

import (
	"errors"
	"os"
)

// canStall reports whether processes can be stopped and continued, and asked to end.
const canStall = false

func stall(*os.Process) error     { return errors.ErrUnsupported }
func resume(*os.Process) error    { return errors.ErrUnsupported }
func terminate(*os.Process) error { return errors.ErrUnsupported }
