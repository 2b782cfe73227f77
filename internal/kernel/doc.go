// Package kernel is common to all kernels: sizes, the layout of operands in memory, prefetch
// distances, and bounds of one call of assembly.
//
// Below it is a package for each family of kernels: floats; narrow, over fewer bits. In each the
// generic code is the specification, and assembly equals it bit for bit. Kernels are functions of
// their arguments: a kernel that depends on the CPU has a [tuning.Row] or its ISA as an argument.
package kernel
