// Package triangle has the kernels of package linattn that depend on the earlier rows of a chunk:
// updates of the state, outputs, and products of queries and keys with a decay for each channel.
// Products with the state itself are matrix products, in package floats. The functions of
// generic.go, whose names end in Generic, are the specification: assembly returns the bits that
// these loops return.
package triangle
