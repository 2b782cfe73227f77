// Package elements has the kernels of package nn: sums over rows, and functions computed element by
// element. The functions of generic.go, whose names end in Generic, are their specification:
// assembly returns the bits that these loops return.
package elements
