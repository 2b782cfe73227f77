// Package int4 has the kernels of codes of four bits: what makes them, looks up their levels, and
// multiplies integers by them. The functions of generic.go, whose names end in Generic, are their
// specification: assembly returns the bits that these loops return.
package int4
