package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
)

// Cases of products by matrices of blocks of GGUF files, in integers.

// blockType describes a type of blocks for the cases.
type blockType struct {
	of            attn.BlockType
	inputs, bytes int     // of a block in a file
	scales        []int   // offsets of its 16-bit scales
	bits          float64 // of a weight in memory
}

// small reports whether weights are unsigned, of 6 bits or fewer.
func (c *benchCase) small() bool { return c.matrix != 0 && c.matrix != attn.Q8_0 }

var blockTypes = []blockType{
	{attn.Q8_0, 32, 34, []int{0}, 8.5},
	{attn.Q4_0, 32, 18, []int{0}, 4.5},
	{attn.Q4_K, 256, 144, []int{0, 2}, 4.625},
	{attn.Q5_K, 256, 176, []int{0, 2}, 5.625},
	{attn.Q6_K, 256, 210, []int{208}, 6.5625},
}

// blockTypeOf returns the description of a type.
func blockTypeOf(of attn.BlockType) *blockType {
	return &blockTypes[slices.IndexFunc(blockTypes, func(t blockType) bool { return t.of == of })]
}

// matrixSide is the inputs and outputs of the matrices.
const matrixSide = 4096

// fewRows wait for memory; more rows are limited by multiply-adds.
const fewRows = 4

// matrixCases returns the cases: some rows by matrices of each type.
func matrixCases() (list []benchCase) {
	for _, t := range blockTypes {
		name := t.of.String()
		name = strings.ToLower(name[:1]) + name[1:]
		for _, rows := range []int{1, fewRows, 128, 512} {
			c := benchCase{Name: fmt.Sprintf("matrix %s, %d rows", name, rows),
				Bench: fmt.Sprintf("type=%s/rows=%d", name, rows),
				Shape: fmt.Sprintf("K%d N%d", matrixSide, matrixSide), integers: true, matrix: t.of,
				sizes: sizes{b: 1, h: 1, kvh: 1, lq: rows, lk: matrixSide, d: matrixSide}}
			if rows == 1 {
				c.Name = strings.TrimSuffix(c.Name, "s")
			}
			list = append(list, c)
		}
	}
	return list
}

// matrixWork returns the operations of a product, or the bytes of the matrix.
func (c *benchCase) matrixWork() float64 {
	weights := float64(c.lk) * float64(c.d)
	if c.memory() {
		return weights * blockTypeOf(c.matrix).bits / 8
	}
	return 2 * float64(c.lq) * weights
}

// matrix identifies a matrix.
type matrix struct {
	of              attn.BlockType
	outputs, inputs int
}

// prepareMatrix is prepare for products by a matrix.
func (e *equipment) prepareMatrix(c *benchCase, threads int) (call func() error, dst attn.Tensor,
	err error) {
	m, err := e.matrixOf(matrix{c.matrix, c.lk, c.d})
	if err != nil {
		return nil, dst, err
	}
	a := attn.BHLD(normals(rand.New(rand.NewPCG(1, 2)), c.lq*c.d), 1, 1, c.lq, c.d)
	dst = attn.BHLD(make([]float32, c.lq*c.lk), 1, 1, c.lq, c.lk)
	if threads > 1 {
		return func() error { return e.pool.MulMatrix(dst, a, m, nil) }, dst, nil
	}
	return func() error { return m.MatMul(dst, a, nil) }, dst, nil
}

// matrixOf returns the matrix that cases share.
func (e *equipment) matrixOf(key matrix) (*attn.Matrix, error) {
	if m := e.matrices[key]; m != nil {
		return m, nil
	}
	m, err := e.pool.PackBlocks(key.file(), key.of, key.outputs, key.inputs,
		attn.MatrixConfig{Integers: true})
	e.matrices[key] = m
	return m, err
}

// file returns blocks of random bits, all with the same scale.
func (m *matrix) file() []byte {
	t, random := blockTypeOf(m.of), rand.New(rand.NewPCG(1, 2))
	n := m.outputs * m.inputs / t.inputs * t.bytes
	data := make([]byte, (n+7)/8*8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], random.Uint64())
	}
	const scale = 0x1c00 // 1/256 in F16
	for block := 0; block < n; block += t.bytes {
		for _, at := range t.scales {
			binary.LittleEndian.PutUint16(data[block+at:], scale)
		}
	}
	return data[:n]
}
