// Package int4 has the kernels of codes of four bits, which encode, look up levels, and multiply
// integers by them. The functions of generic.go, whose names end in Generic, are their
// specification: assembly returns the bits that these loops return.
package int4
