package attn

import (
	"encoding/binary"
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// I4: an element is a code of four bits for one of 16 levels, which are integers of I8. Kernels of
// integers and of I8 read levels, so codes are looked up on their way.
//
// Codes lie so that a look-up of 64 bytes gives two vectors of I8: the lower halves of bytes are
// the codes of a group of four steps of 16 columns (see kernel_typed.go), the upper halves those of
// the next group. Step k of column c is in byte c/panel·panelStride + k/8·stride + c%panel·4 + k%4.

// levelBounds are where a magnitude, in scales, is rounded to the next level.
var levelBounds = [7]float32{10.5, 22, 34, 47, 61.5, 79, 103}

// levelSign is the bit of a code that says that its level is negative.
const levelSign = 8

// codeOf is the code of the level of t, a number in scales.
func codeOf(t float32) (code byte) {
	bits := math.Float32bits(t)
	for _, bound := range levelBounds {
		if math.Float32frombits(bits&^(1<<31)) >= bound {
			code++
		}
	}
	return code | byte(bits>>31)*levelSign
}

// encode is dst = the codes of x/scale, rounded once; all codes are 0 if the scale is.
func encode(dst []byte, x []float32, scale float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 || scale == 0 {
		encodeGeneric(dst, x, scale)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		encodeSIMD(&dst[from], &x[from], to-from, scale)
	}
}

func encodeGeneric(dst []byte, x []float32, scale float32) {
	for i, e := range x {
		if dst[i] = 0; scale != 0 {
			dst[i] = codeOf(float32(e / scale))
		}
	}
}

// encodeRows makes codes of rows of n finite elements, and finds their scales. What completes rows
// of dstStride codes is 0.
func encodeRows(dst []byte, scales, x []float32, rows, n, dstStride, xStride int) {
	for r := range rows {
		row, to := x[r*xStride:][:n], dst[r*dstStride:][:dstStride]
		scales[r] = scaleOf(largest(row))
		encode(to[:n], row, scales[r])
		clear(to[n:])
	}
}

// foldCodes makes bytes of codes, whole groups of eight: of a group, the lower half of byte i is
// code i, the upper half code 4 + i.
func foldCodes(dst, codes []byte) {
	for i := 0; i < len(codes); i += 8 {
		x := binary.LittleEndian.Uint64(codes[i:])
		binary.LittleEndian.PutUint32(dst[i/2:], uint32(x)|uint32(x>>32)<<4)
	}
}

// putCodes writes codes to the lower halves of bytes, or to the upper ones, whole groups of eight.
// The other halves stay.
func putCodes(dst, codes []byte, upper bool) {
	keep, shift := uint64(0xf0f0f0f0f0f0f0f0), 0
	if upper {
		keep, shift = ^keep, 4
	}
	for i := 0; i < len(codes); i += 8 {
		x := binary.LittleEndian.Uint64(dst[i:])&keep | binary.LittleEndian.Uint64(codes[i:])<<shift
		binary.LittleEndian.PutUint64(dst[i:], x)
	}
}

// setCode makes code i of x.
func setCode(x []byte, i int, code byte) {
	x[i/2] = x[i/2]&^(15<<(i%2*4)) | code<<(i%2*4)
}

// codeRows is up to how many rows look codes up in registers. For more, a block of codes
// becomes levels once, and so it does in float32 where there are kernels but none that look up.
const codeRows = 4

// rowsOfCodes is up to how many rows, of integers or of float32, read codes.
func rowsOfCodes(integers bool) int {
	if is := tuned.ISA; integers || is.Lanes16() || !is.SIMD() {
		return codeRows
	}
	return 0
}

// scoreInt4 is scoreInt8 of few rows by keys that are codes.
func scoreInt4(s []float32, q *integerRows, row int, k []byte, scales []float32, rows, d, n,
	ahead int, inOrder bool) {
	var b kernel.PanelLayout
	b.OfKeys(kernel.I4, d, roundUp(n, panel))
	b.Set(&tuned, ahead, ahead, inOrder)
	stride := roundUp(d, 4)
	q.reads(row, rows, stride, 1, stride, 1)
	operand.Reads(scales, b.Cols)
	operand.Writes(s, (rows-1)*Block+b.Cols)
	operand.Reads(k, b.Cols/panel*b.PanelStride)
	if !(tuned.ISA.Integers() || q.bytes != nil) {
		scoreInt4Generic(s, q.words[row*stride:], k, scales, rows, &b)
		return
	}
	all, cols := b.Cols, b.Cols
	if d*cols > callIntegers {
		cols = panel
	}
	for c := 0; c < all; c += cols {
		b.Cols = min(cols, all-c)
		scoreInt4Step(&s[c], q, row, &k[c/panel*b.PanelStride], &scales[c], rows, stride, &b)
	}
}

// accumulateInt4 is accumulateInt8 of few rows of words that weigh values that are codes.
func accumulateInt4(o []float32, w *integerRows, v []byte, alpha, f []float32, rows, oStride,
	wStride, fStride int, b *kernel.PanelLayout) {
	operand.UpdatesRows(o, rows, oStride, b.Cols)
	w.reads(0, rows, wStride, fStride, roundUp(b.Keys, 4), 1)
	operand.ReadsRows(f, rows, fStride, 1)
	operand.Reads(alpha, rows)
	operand.Reads(v, (b.Keys-1)/8*b.Stride+b.Cols*4)
	if !integerProducts() {
		accumulateInt4Generic(o, w.words, v, alpha, f, rows, oStride, wStride, fStride, b)
		return
	}
	all := b.Cols
	cols := max(8*panel, callIntegers/(rows*b.Keys)/panel*panel)
	for c := 0; c < all; c += cols {
		b.Cols = min(cols, all-c) // and no copy of b, see prefetchHint.set
		accumulateInt4Step(&o[c], w, 0, &v[c/panel*b.PanelStride], &alpha[0], &f[0], rows, oStride,
			wStride, fStride, b)
	}
	b.Cols = all
}

// scoreInt4Generic is s_rj = float32(Σ q_rx·k_jx)·scale_j.
func scoreInt4Generic(s []float32, q []int16, k []byte, scales []float32, rows int,
	b *kernel.PanelLayout) {
	scoreIntegers(I4, s, q, k, scales, rows, b)
}

// accumulateInt4Generic is accumulateInt8Generic of values that are codes.
func accumulateInt4Generic(o []float32, w []int16, v []byte, alpha, f []float32, rows, oStride,
	wStride, fStride int, b *kernel.PanelLayout) {
	accumulateIntegers(I4, o, w, v, alpha, f, rows, oStride, wStride, fStride, b)
}

// levelLayout says where the levels of rows of vectors of 64 bytes go, in bytes.
type levelLayout struct {
	rows, vectors int // of a row
	row           int // from the levels of a row to those of the next
	step          int // from those of a vector's lower halves to the next vector's,
	upper         int // and to those of its upper halves
}

// lookUp is dst = the levels of src, row by row: those of upper halves that are behind a row's last
// ones may be written before the next row is. src is prefetched some bytes ahead.
func lookUp(dst, src []byte, l *levelLayout, ahead int) {
	n := l.rows * l.vectors * 64
	operand.Reads(src, n)
	last := (l.rows-1)*l.row + (l.vectors-1)*l.step + l.upper + 64
	operand.Writes(dst, last)
	if !tuned.ISA.SIMD() {
		lookUpGeneric(dst, src, l)
		return
	}
	rows, vectors := l.rows, l.vectors // of a call
	if rows*vectors > kernel.CallElements {
		rows, vectors = 1, min(vectors, kernel.CallElements)
	}
	for r := 0; r < l.rows; r += rows {
		for i := 0; i < l.vectors; i += vectors {
			lookUpStep(&dst[r*l.row+i*l.step], &src[(r*l.vectors+i)*64], rows, min(vectors, l.vectors-i),
				l.row, l.step, l.upper, ahead)
		}
	}
}

func lookUpGeneric(dst, src []byte, l *levelLayout) {
	for r := range l.rows {
		for i := range l.vectors {
			from, at := src[(r*l.vectors+i)*64:][:64], r*l.row+i*l.step
			lower, upper := dst[at:][:64], dst[at+l.upper:][:64]
			for j, codes := range from {
				lower[j], upper[j] = byte(levels[codes&15]), byte(levels[codes>>4])
			}
		}
	}
}
