// Package kernel is what kernels have in common: sizes, how operands lie in memory, how far memory
// is prefetched, and how long one call of assembly may take.
//
// Below it is a package for each family of kernels: floats; narrow, over fewer bits. In each the
// generic code is the specification, and assembly equals it bit for bit. Kernels are functions of
// their arguments: who needs to know the CPU is given a [tuning.Row] or its ISA.
package kernel
