// Package narrow has kernels over keys, values and weights of fewer bits, in float32: products, and
// conversion of elements to a format and back. The functions of generic.go, whose names end in
// Generic, are their specification: assembly returns the bits that these loops return.
package narrow
