// Package triangle has the kernels of package linear for what depends on the rows before it in a
// chunk: what a row adds to the state, outputs, and products of queries and keys under a decay of
// each channel. Products with the state itself are those of matrices, in package floats. The
// functions of generic.go, whose names end in Generic, are the specification: assembly returns the
// bits that these loops return.
package triangle
