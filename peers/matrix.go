package main

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
)

// Weights of 4 bits: blocks of 32 inputs with a scale of 16 bits, as Q4_0 of GGUF files.
const (
	blockInputs = 32
	blockBytes  = 2 + blockInputs/2
)

// codes returns the integers of a block, each 8 above its value, and its scale. Weights that are
// exactly representable stay the same.
func codes(block []float32) (n [blockInputs]byte, scale float32) {
	top := float32(0)
	for _, x := range block {
		if math.Abs(float64(x)) > math.Abs(float64(top)) {
			top = x
		}
	}
	scale = f32.FromF16(f32.ToF16(top / -8))
	for i, x := range block {
		n[i] = byte(min(max(math.RoundToEven(float64(x/scale)), -8), 7) + 8)
	}
	return n, scale
}

// roundToBlocks rounds weights to values that blocks hold.
func roundToBlocks(x []float32) []float32 {
	for block := range slices.Chunk(x, blockInputs) {
		n, scale := codes(block)
		for i, code := range n {
			block[i] = scale * (float32(code) - 8)
		}
	}
	return x
}

// ggufBlocks returns the weights in the layout of a file: 16 bytes, whose lower halves come first,
// then the upper ones.
func ggufBlocks(x []float32) (data []byte) {
	for block := range slices.Chunk(x, blockInputs) {
		n, scale := codes(block)
		data = binary.LittleEndian.AppendUint16(data, f32.ToF16(scale))
		for i := range blockInputs / 2 {
			data = append(data, n[i]|n[i+blockInputs/2]<<4)
		}
	}
	return data
}

// products returns attn's call for a case of a matrix.
func products(c *Case, in inputs, threads int) (func() error, func() []float32, error) {
	m, err := attn.PackBlocks(ggufBlocks(in.k), attn.Q4_0, c.Lk, c.Dim,
		attn.MatrixConfig{Integers: true})
	if err != nil {
		return nil, nil, err
	}
	dst := attn.BHLD(make([]float32, c.queries()), 1, 1, c.Lq, c.Lk)
	a := attn.BHLD(in.q, 1, 1, c.Lq, c.Dim)
	result := func() []float32 { return dst.Data }
	if threads > 1 {
		pool := attn.NewPool(threads)
		return func() error { return pool.MulMatrix(dst, a, m, nil) }, result, nil
	}
	return func() error { return m.MatMul(dst, a, nil) }, result, nil
}

// exactProducts returns the products in float32.
func exactProducts(c *Case, in inputs) ([]float32, error) {
	m, err := attn.PackMatrix(attn.BHLD(in.k, 1, 1, c.Lk, c.Dim), attn.MatrixConfig{Transposed: true})
	if err != nil {
		return nil, err
	}
	dst := make([]float32, c.queries())
	return dst, m.MatMul(attn.BHLD(dst, 1, 1, c.Lq, c.Lk), attn.BHLD(in.q, 1, 1, c.Lq, c.Dim), nil)
}
