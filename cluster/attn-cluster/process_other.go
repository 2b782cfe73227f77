//go:build !unix

package main

import (
	"errors"
	"os"
)

// stall and resume have no counterpart here.
func stall(*os.Process) error  { return errors.ErrUnsupported }
func resume(*os.Process) error { return errors.ErrUnsupported }
