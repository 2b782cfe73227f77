// Package kerneltest compares kernels with their generic twins: it draws operands, between pages
// that must not be touched, and runs a kernel with each implementation of the machine. Only tests
// import it.
package kerneltest

import "github.com/seed-1415985d/attn/internal/tuning"

// Tuned is the row in force. Tests of a package with its own row set it to that row.
var Tuned = &host

var host = tuning.Host()
