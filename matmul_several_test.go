package attn

import (
	"fmt"
	"testing"

	"github.com/seed-1415985d/attn/internal/matmul"
)

// severalMatrices are matrices of every format and some block types for the same inputs.
func severalMatrices(t testing.TB, inputs int) (ms []*Matrix) {
	r := random("several")
	add := func(m *Matrix, err error) {
		t.Helper()
		must(t, err)
		ms = append(ms, m)
	}
	for i, typ := range matrixTypes {
		add(PackMatrix(tensor(r, normal, 1, 1, inputs, 30+7*i), MatrixConfig{Format: typ}))
	}
	add(PackMatrix(tensor(r, normal, 1, 1, inputs, 50), MatrixConfig{Format: I8, Integers: true}))
	add(PackMatrix(tensor(r, normal, 1, 1, inputs, 23), MatrixConfig{BFloat16: true}))
	for i, typ := range []BlockType{Q4_K, Q6_K, Q8_0} {
		add(PackBlocks(fileOfBlocks(r, typ, 17+16*i, inputs), typ, 17+16*i, inputs,
			MatrixConfig{Integers: i != 1}))
	}
	add(PackBlocks(fileOfBlocks(r, Q5_K, 33, inputs), Q5_K, 33, inputs, MatrixConfig{BFloat16: true}))
	return ms
}

// Products of one input by several matrices are those by each of them.
func TestMulMatrices(t *testing.T) {
	shareSmallCalls(t)
	const inputs = 512
	ms := severalMatrices(t, inputs)
	r := random(t.Name())
	forEach(t, func(t *testing.T) {
		for _, rows := range []int{1, 3, matmul.Rows + 5} {
			for _, first := range []int{0, 3} { // with and without what needs nothing
				some := ms[first:]
				a := tensor(r, normal, 2, 1, rows, inputs)
				dsts, want := make([]Tensor, len(some)), make([]Tensor, len(some))
				var biases [][]float32
				for i, m := range some {
					dsts[i], want[i] = zeros(2, 1, rows, outputsOf(m)), zeros(2, 1, rows, outputsOf(m))
					bias := tensor(r, normal, 1, 1, 1, outputsOf(m)).Data
					if i%3 == 2 {
						bias = nil
					}
					biases = append(biases, bias)
					must(t, m.MatMul(want[i], a, bias))
				}
				for name, pool := range map[string]*Pool{"alone": nil, "pool": threeWorkers()} {
					must(t, pool.MulMatrices(dsts, a, some, biases))
					for i, m := range some {
						mustEqualBits(t, fmt.Sprint(name, rows, nameOf(m)), dsts[i].Data, want[i].Data)
					}
				}
				must(t, some[1].MatMul(want[1], a, nil))
				must(t, threeWorkers().MulMatrices(dsts[1:2], a, some[1:2], nil))
				mustEqualBits(t, "without biases", dsts[1].Data, want[1].Data)
			}
		}
	})
	must(t, MulMatrices(nil, Tensor{}, nil, nil))
	must(t, threeWorkers().MulMatrices(nil, Tensor{}, nil, nil))
}

// Views allow the same strides as elsewhere: none for contiguous elements, Broadcast to repeat, and
// any where a dimension is 1.
func TestMulMatricesStrides(t *testing.T) {
	ms := severalMatrices(t, 256)
	r := random(t.Name())
	contiguous := tensor(r, normal, 2, 1, 3, 256)
	plain, repeated := contiguous, contiguous
	plain.SB, plain.SH, plain.SL = 0, 0, 0
	repeated.SB, repeated.SH, repeated.SL = Broadcast, -7, Broadcast
	same := zeros(2, 1, 3, 256)
	for i := range 6 {
		copy(same.Data[i*256:], contiguous.Data[:256])
	}
	for _, c := range [][2]Tensor{{plain, contiguous}, {repeated, same}} {
		a := c[0]
		dsts, want := make([]Tensor, len(ms)), make([]Tensor, len(ms))
		for i, m := range ms {
			dsts[i], want[i] = zeros(2, 1, 3, outputsOf(m)), zeros(2, 1, 3, outputsOf(m))
			must(t, m.MatMul(want[i], c[1], nil))
			dsts[i].SB, dsts[i].SH, dsts[i].SL = 0, 0, 0
			for _, p := range []*Pool{nil, threeWorkers()} {
				must(t, p.MulMatrix(dsts[i], a, m, nil))
				mustEqualBits(t, fmt.Sprint("one ", a.SL, i), dsts[i].Data, want[i].Data)
				clear(dsts[i].Data)
			}
		}
		for _, p := range []*Pool{nil, threeWorkers()} {
			must(t, p.MulMatrices(dsts, a, ms, nil))
			for i := range ms {
				mustEqualBits(t, fmt.Sprint(a.SL, i), dsts[i].Data, want[i].Data)
				clear(dsts[i].Data)
			}
		}
	}
	m, memory := ms[0], nans(3*outputsOf(ms[0]))
	row := func(at int) Tensor {
		return Tensor{Data: memory[at*outputsOf(m):], B: 1, H: 1, L: 2, D: outputsOf(m)}
	}
	err := MulMatrices([]Tensor{row(0), row(1)}, zeros(1, 1, 2, 256), []*Matrix{m, m}, nil)
	mustFail(t, "rows of two outputs", err, ErrOverlap,
		"dsts[0] overlaps dsts[1], want separate memory")
	mustBeUntouched(t, BHLD(memory, 1, 1, 3, outputsOf(m)))
}

// Workers that prepare few rows for themselves compute the bits of one.
func TestFewRowsOfSeveralBlocks(t *testing.T) {
	shareSmallCalls(t)
	r := random(t.Name())
	forEach(t, func(t *testing.T) {
		for range budget(20) {
			inputs, rows := 256*(1+r.IntN(6)), 1+r.IntN(13)
			a := tensor(r, normal, 1, 1, rows, inputs)
			var ms []*Matrix
			var got, want []Tensor
			for range 1 + r.IntN(4) {
				typ, outputs := integerBlockTypes[r.IntN(len(integerBlockTypes))], 1+r.IntN(700)
				m, err := PackBlocks(fileOfBlocks(r, typ, outputs, inputs), typ, outputs, inputs,
					MatrixConfig{Integers: true})
				must(t, err)
				ms = append(ms, m)
				got, want = append(got, zeros(1, 1, rows, outputs)), append(want, zeros(1, 1, rows, outputs))
				must(t, m.MatMul(want[len(want)-1], a, nil))
			}
			pool := NewPool(1 + r.IntN(9))
			must(t, pool.MulMatrices(got, a, ms, nil))
			must(t, pool.Close())
			for i := range ms {
				mustEqualBits(t, fmt.Sprint(inputs, rows, i), got[i].Data, want[i].Data)
			}
		}
	})
}

func TestMulMatricesErrors(t *testing.T) {
	m, err := PackMatrix(zeros(1, 1, 4, 5), MatrixConfig{})
	must(t, err)
	closed, err := PackMatrix(zeros(1, 1, 4, 5), MatrixConfig{})
	must(t, err)
	must(t, closed.Close())
	a := zeros(1, 1, 2, 4)
	memory := nans(40)
	x, y := BHLD(memory[:10], 1, 1, 2, 5), BHLD(memory[10:20], 1, 1, 2, 5)
	between := BHLD(memory[5:15], 1, 1, 2, 5)
	two := []*Matrix{m, m}
	pool := threeWorkers()
	for _, c := range []struct {
		dsts   []Tensor
		ms     []*Matrix
		biases [][]float32
		kind   error
		text   string
	}{
		{[]Tensor{x}, two, nil, ErrLength, "len(dsts) is 1, want 2 as there are matrices"},
		{[]Tensor{x, y}, two, [][]float32{nil}, ErrLength,
			"len(biases) is 1, want nil or 2 as there are matrices"},
		{[]Tensor{x, y}, two, [][]float32{nil, memory[30:34]}, ErrLength,
			"len(bias) is 4, want 5 (dsts[1] and ms[1])"},
		{[]Tensor{x, zeros(1, 1, 2, 6)}, two, nil, ErrShape,
			"dst is [1 1 2 6], want [1 1 2 5] (dsts[1] and ms[1])"},
		{[]Tensor{x, y}, []*Matrix{m, closed}, nil, ErrClosed,
			"the matrix was closed, or is not from PackMatrix (ms[1])"},
		{[]Tensor{x, y}, []*Matrix{nil, m}, nil, ErrOption, "ms[0] is nil, want a matrix"},
		{[]Tensor{x, between}, two, nil, ErrOverlap, "dsts[0] overlaps dsts[1], want separate memory"},
		{[]Tensor{x, y}, two, [][]float32{nil, memory[5:10]}, ErrOverlap,
			"dsts[0] overlaps biases[1], want separate memory"},
	} {
		mustFail(t, "MulMatrices", MulMatrices(c.dsts, a, c.ms, c.biases), c.kind, c.text)
		mustFail(t, "Pool.MulMatrices", pool.MulMatrices(c.dsts, a, c.ms, c.biases), c.kind, c.text)
	}
	mustBeUntouched(t, BHLD(memory, 1, 1, 1, 40))
	ended := NewPool(2)
	must(t, ended.Close())
	mustFail(t, "closed", ended.MulMatrices([]Tensor{x}, a, two[:1], nil), ErrClosed)
	_, err = ended.PackBlocks(make([]byte, 18), Q4_0, 1, 32, MatrixConfig{})
	mustFail(t, "closed", err, ErrClosed)
	_, err = pool.PackBlocks(make([]byte, 17), Q4_0, 1, 32, MatrixConfig{})
	mustFail(t, "PackBlocks", err, ErrLength)
}
