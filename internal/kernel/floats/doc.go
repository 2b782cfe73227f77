// Package floats has the kernels of attention over float32. The functions of generic.go, whose
// names end in Generic, are their specification: assembly returns the bits that these loops return.
//
// The functions here first declare for each operand what is read and written, which checks that the
// slice is long enough; assembly does not check. Then they choose an implementation by a switch,
// because calls through func-typed variables would make the arguments escape to the heap, and split
// larger calls. Names that end in Step choose between kernels of one architecture.
package floats
