// Package blockwise has the kernels over weights in blocks of GGUF files: products in integers, and
// decoding to float32. The functions of generic.go, whose names end in Generic, are their
// specification: assembly returns the bits that these loops return. Package blocks says how packed
// blocks lie.
package blockwise
