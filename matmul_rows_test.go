package attn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// weightsOf is the weights [batch, heads, outputs, inputs] of w, a row for each input, as a matrix
// of a format has them by definition.
func weightsOf(typ Format, w Tensor) Tensor {
	want := zeros(w.B, w.H, w.D, w.L)
	for b := range w.B {
		for h := range w.H {
			for c := range w.D {
				column, scale := storedColumn(typ, &w, b, h, c)
				if typ == I8 {
					for k, e := range column {
						column[k] = float32(e * scale)
					}
					rotateGeneric(column, 1, len(column), len(column), matrixRotation(len(column)))
				}
				copy(want.Row(b, h, c), column)
			}
		}
	}
	return want
}

// weightsOfBlocks is weightsOf for blocks of a file.
func weightsOfBlocks(typ BlockType, data []byte, outputs, inputs int) Tensor {
	want := zeros(1, 1, outputs, inputs)
	for i, e := range weightsIn(typ, data) {
		want.Data[i] = float32(e.Value())
	}
	return want
}

// someOutputs draws outputs, some of them several times and in neighbourhoods.
func someOutputs(r *rand.Rand, most, cols int) (outputs []int32) {
	for range r.IntN(most + 1) {
		at := r.IntN(cols)
		if n := len(outputs); n > 0 && r.IntN(2) == 0 {
			at = (int(outputs[n-1]) + r.IntN(3)) % cols
		}
		outputs = append(outputs, int32(at))
	}
	return outputs
}

// allOutputs is every output of a matrix in order.
func allOutputs(m *Matrix) (outputs []int32) {
	for c := range m.cols {
		outputs = append(outputs, int32(c))
	}
	return outputs
}

// checkRowsOf compares rows of a matrix with its weights.
func checkRowsOf(t testing.TB, what string, m *Matrix, weights Tensor, outputs []int32) {
	t.Helper()
	dst := BHLD(nans(m.b*m.h*len(outputs)*m.inner), m.b, m.h, len(outputs), m.inner)
	must(t, m.Rows(dst, outputs))
	mustEqualBits(t, what, dst.Data, rowsAt(weights, outputs).Data)
}

// rowsAt is some rows of each head.
func rowsAt(x Tensor, rows []int32) Tensor {
	y := zeros(x.B, x.H, len(rows), x.D)
	for b := range x.B {
		for h := range x.H {
			for i, row := range rows {
				copy(y.Row(b, h, i), x.Row(b, h, int(row)))
			}
		}
	}
	return y
}

// Rows are the weights of a format by definition, of a matrix of any shape.
func TestRowsAreTheirDefinition(t *testing.T) {
	everyMatrix(t, func(t *testing.T, w Tensor, c MatrixConfig) {
		inputs := w
		if c.Transposed {
			inputs = transposedOf(w)
		}
		want := weightsOf(c.Format, inputs)
		forEach(t, func(t *testing.T) {
			m, err := PackMatrix(w, c)
			must(t, err)
			checkRowsOf(t, "all rows", m, want, allOutputs(m))
			checkRowsOf(t, "some rows", m, want, someOutputs(random(t.Name()), 20, m.cols))
			checkRowsOf(t, "no row", m, want, nil)
			must(t, m.Close())
		})
	})
}

// transposedOf has a row for each column of x.
func transposedOf(x Tensor) Tensor {
	y := zeros(x.B, x.H, x.D, x.L)
	for b := range x.B {
		for h := range x.H {
			for i := range x.L {
				for c, e := range x.Row(b, h, i) {
					y.Row(b, h, c)[i] = e
				}
			}
		}
	}
	return y
}

// allBlockTypes is every type.
func allBlockTypes() (all []BlockType) {
	for t := Q8_0; blocks.Type(t).Valid(); t++ {
		all = append(all, t)
	}
	return all
}

// Rows of blocks are what the blocks decode to, with Integers or not.
func TestRowsOfBlocks(t *testing.T) {
	for _, typ := range allBlockTypes() {
		for _, s := range [][2]int{{1, 1}, {16, 2}, {35, 5}} {
			outputs, inputs := s[0], s[1]*256
			r := random(fmt.Sprint(typ, s))
			data := fileOfBlocks(r, typ, outputs, inputs)
			want := zeros(1, 1, outputs, inputs)
			if blocks.Type(typ).Halves() {
				w := tensor(r, normal, 1, 1, inputs, outputs)
				want = weightsOf(formatOfHalves(blocks.Type(typ)), w)
				for i, x := range want.Data {
					e := f32.ToF16(x)
					if typ == BlockBF16 {
						e = f32.ToBF16(x)
					}
					data[2*i], data[2*i+1] = byte(e), byte(e>>8)
				}
			} else {
				want = weightsOfBlocks(typ, data, outputs, inputs)
			}
			forEach(t, func(t *testing.T) {
				for _, integers := range []bool{false, true} {
					if integers && blocks.Type(typ).Halves() {
						continue
					}
					m, err := PackBlocks(data, typ, outputs, inputs, MatrixConfig{Integers: integers})
					must(t, err)
					checkRowsOf(t, "all rows", m, want, allOutputs(m))
					checkRowsOf(t, "some rows", m, want, someOutputs(r, 20, outputs))
					must(t, m.Close())
				}
			})
		}
	}
}

// A product by unit vectors is the same weights, where products are sums of floats that are not
// rotated.
func TestRowsAreWhatProductsUse(t *testing.T) {
	const inputs, outputs = 512, 35
	unit := zeros(1, 1, inputs, inputs)
	for i := range inputs {
		unit.Row(0, 0, i)[i] = 1
	}
	r := random(t.Name())
	check := func(m *Matrix, err error) {
		t.Helper()
		must(t, err)
		products, rows := zeros(1, 1, inputs, outputs), zeros(1, 1, outputs, inputs)
		must(t, m.MatMul(products, unit, nil))
		must(t, m.Rows(rows, allOutputs(m)))
		for i, e := range transposedOf(products).Data {
			if e != rows.Data[i] { // zeros of either sign are equal
				t.Fatalf("%v: weight %d is %v in products, %v in rows", m.Format(), i, e, rows.Data[i])
			}
		}
		must(t, m.Close())
	}
	for _, f := range []Format{F32, F16, BF16} {
		check(PackMatrix(tensor(r, normal, 1, 1, inputs, outputs), MatrixConfig{Format: f}))
	}
	for _, typ := range integerBlockTypes {
		check(PackBlocks(fileOfBlocks(r, typ, outputs, inputs), typ, outputs, inputs, MatrixConfig{}))
	}
}

// FuzzRows: rows of any matrix are its weights by definition, in any strides, and touch nothing
// around dst; outputs that do not exist are refused.
func FuzzRows(f *testing.F) {
	seedInputs(f)
	operands := new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := randomFrom(data)
		anyTuning(t, r)
		m, weights := drawMatrix(t, r)
		defer m.Close()
		outputs := someOutputs(r, 20, m.cols)
		want := rowsAt(weights, outputs)
		const canary = 12345
		operands.Used = [3]int{}
		out, _ := scatter(r, &operands.Floats, &operands.Used[0], want, [3]bool{}, canary)
		got := zeros(want.B, want.H, want.L, want.D)
		for i := range got.Data {
			got.Data[i] = canary
		}
		if len(outputs) > 0 && r.IntN(4) == 0 {
			spoiled := append([]int32(nil), outputs...)
			at := r.IntN(len(spoiled))
			spoiled[at] = []int32{-1, int32(m.cols), -1 << 31, 1<<31 - 1}[r.IntN(4)]
			mustFail(t, "Rows", m.Rows(out, spoiled), ErrOption,
				fmt.Sprintf("outputs[%d] is %d, want 0 to %d", at, spoiled[at], m.cols-1))
		}
		must(t, m.Rows(out, outputs))
		gather(t, got, out, canary)
		mustEqualBits(t, "Rows", got.Data, want.Data)
	})
}

// drawMatrix draws a matrix, and its weights by definition.
func drawMatrix(t testing.TB, r *rand.Rand) (*Matrix, Tensor) {
	if r.IntN(2) == 0 {
		typ := integerBlockTypes[r.IntN(len(integerBlockTypes))]
		outputs, inputs := 1+r.IntN(40), (1+r.IntN(3))*traitsOf(typ).Inputs
		file := fileOfBlocks(r, typ, outputs, inputs)
		m, err := PackBlocks(file, typ, outputs, inputs, MatrixConfig{Integers: r.IntN(2) == 0})
		must(t, err)
		return m, weightsOfBlocks(typ, file, outputs, inputs)
	}
	w := drawProduct(r, normal).b
	c := matrixConfigs[r.IntN(len(matrixConfigs))]
	m, err := PackMatrix(w, c)
	must(t, err)
	return m, weightsOf(c.Format, w)
}

func TestRowsErrors(t *testing.T) {
	const inputs, outputs = 8, 20
	m, err := PackMatrix(zeros(2, 1, inputs, outputs), MatrixConfig{Format: BF16})
	must(t, err)
	closed, err := PackMatrix(zeros(1, 1, inputs, outputs), MatrixConfig{})
	must(t, err)
	must(t, closed.Close())
	memory := nans(2 * 3 * inputs)
	x := BHLD(memory, 2, 1, 3, inputs)
	shared := unsafe.Slice((*int32)(unsafe.Pointer(&memory[7])), 3)
	copy(shared, []int32{0, 1, 2})
	short := x
	short.Data = memory[:5]
	for _, c := range []struct {
		m       *Matrix
		dst     Tensor
		outputs []int32
		kind    error
		text    string
	}{
		{m, x, []int32{0, -1, 2}, ErrOption, "outputs[1] is -1, want 0 to 19"},
		{m, x, []int32{0, 1, 20}, ErrOption, "outputs[2] is 20, want 0 to 19"},
		{m, x, []int32{0, 1}, ErrShape, "dst is [2 1 3 8], want [2 1 2 8]"},
		{m, x, nil, ErrShape, "dst is [2 1 3 8], want [2 1 0 8]"},
		{m, BHLD(memory, 1, 1, 3, 8), []int32{0, 1, 2}, ErrShape, "dst is [1 1 3 8], want [2 1 3 8]"},
		{m, BHLD(memory, 2, 1, 3, 4), []int32{0, 1, 2}, ErrShape, "dst is [2 1 3 4], want [2 1 3 8]"},
		{m, short, []int32{0, 1, 2}, ErrLength,
			"len(dst.Data) is 5, want at least 48 for [2 1 3 8] with strides [24 24 8]"},
		{m, Tensor{Data: memory, B: 2, H: 1, L: 3, D: 8, SB: 8, SH: 8, SL: 8}, []int32{0, 1, 2},
			ErrStride, "dst has a stride of 8 over 3 elements, want at least 16 so that no two " +
				"outputs coincide"},
		{m, x, shared, ErrOverlap, "dst overlaps outputs, want separate memory"},
		{closed, BHLD(memory, 1, 1, 3, 8), []int32{0, 1, 2}, ErrClosed,
			"the matrix was closed, or is not from PackMatrix"},
		{new(Matrix), Tensor{}, nil, ErrClosed,
			"the matrix was closed, or is not from PackMatrix"},
	} {
		before := append([]byte(nil), rawBytes(memory)...)
		mustFail(t, c.text, c.m.Rows(c.dst, c.outputs), c.kind, c.text)
		if !bytes.Equal(before, rawBytes(memory)) {
			t.Fatalf("%s: dst was written by a failed call", c.text)
		}
	}
	must(t, m.Rows(Tensor{B: 2, H: 1, D: inputs}, nil))
	must(t, m.Rows(x, []int32{0, 19, 0}))
	must(t, m.Close())
}

// A matrix says what it is made of, in a file and closed, too.
func TestMatrixSaysItsFormat(t *testing.T) {
	check := func(m *Matrix, f Format, typ BlockType) {
		t.Helper()
		var file bytes.Buffer
		_, err := m.Save(&file)
		must(t, err)
		loaded, err := LoadMatrix(&file)
		must(t, err)
		must(t, m.Close())
		for _, x := range []*Matrix{m, loaded} {
			got, ok := x.BlockType()
			if x.Format() != f || got != typ || ok != (typ != 0) {
				t.Errorf("a matrix is of %v, %v, %t, want %v, %v", x.Format(), got, ok, f, typ)
			}
		}
		must(t, loaded.Close())
	}
	for _, c := range matrixConfigs {
		m, err := PackMatrix(zeros(1, 1, 8, 3), c)
		must(t, err)
		check(m, c.Format, 0)
	}
	for _, typ := range allBlockTypes() {
		of := traitsOf(typ)
		m, err := PackBlocks(make([]byte, of.Bytes), typ, 1, of.Inputs, MatrixConfig{})
		must(t, err)
		if blocks.Type(typ).Halves() {
			check(m, formatOfHalves(blocks.Type(typ)), 0)
		} else {
			check(m, Blocks, typ)
		}
	}
}

// Blocks is the format of nothing that is packed or kept.
func TestNothingIsKeptInBlocks(t *testing.T) {
	if got := fmt.Sprint(Blocks); got != "Blocks" {
		t.Errorf("Blocks is called %q", got)
	}
	_, err := PackMatrix(zeros(1, 1, 2, 2), MatrixConfig{Format: Blocks})
	mustFail(t, "PackMatrix", err, ErrOption,
		"MatrixConfig.Format is Blocks, want F32, F16, BF16 or I8")
	_, err = PackMatrix(zeros(1, 1, 2, 2), MatrixConfig{Format: Blocks, Integers: true})
	mustFail(t, "PackMatrix", err, ErrOption,
		"MatrixConfig.Format is Blocks, want F32, F16, BF16 or I8")
	_, err = PackBlocks(nil, Q8_0, 1, 32, MatrixConfig{Format: Blocks})
	mustFail(t, "PackBlocks", err, ErrOption,
		"MatrixConfig.Format is Blocks, want it unset: t says it")
	for _, f := range [][2]Format{{Blocks, 0}, {F16, Blocks}, {Blocks, Blocks}} {
		want := "Config.ValueFormat is Blocks, want F16, BF16, I8, I4, or 0 for Format"
		if f[0] == Blocks {
			want = "Config.Format is Blocks, want F32, F16, BF16, I8 or I4"
		}
		for _, latent := range []bool{false, true} {
			_, err = NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 8,
				Format: f[0], ValueFormat: f[1], ValuesInKeys: latent})
			mustFail(t, "NewCache", err, ErrOption, "Cache"+want)
			_, err = NewStore(StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 1,
				Format: f[0], ValueFormat: f[1], ValuesInKeys: latent})
			mustFail(t, "NewStore", err, ErrOption, "Store"+want)
		}
	}
}
