// Package integers has the kernels in integers: products of integers of 8 bits, the softmax that
// quantizes weights, and rotation and quantization of rows. The functions of generic.go, whose
// names end in Generic, are their specification, with QuantizeToken and quantizeFourRows: assembly
// returns the bits that these loops return.
package integers
