// Package pairs has the kernels of products in bfloat16: sums over pairs of inputs, in the order of
// the instruction TDPBF16PS, and what rounds rows and weights to bfloat16 and packs them. The
// functions of generic.go, whose names end in Generic, are their specification: assembly returns
// the bits that these loops return.
//
// A sum begins with c = +0. For each [Group] of inputs in ascending order, e is a chain of
// multiply-adds over the even ones of it, o over the odd ones, both from +0; then c = c + (e + o).
// What a group lacks is zeros. Each operation is rounded once, without subnormal numbers
// (f32.FlushedFMA). In the end +0 is added, so that no sum is −0.
package pairs
