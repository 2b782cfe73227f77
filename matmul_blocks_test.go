package attn

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/blocks/blockstest"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/matmul"
)

// integerBlockTypes are those in blocks, all but BlockF16 and BlockBF16.
var integerBlockTypes = func() (types []BlockType) {
	for _, t := range blocks.Integers() {
		types = append(types, BlockType(t))
	}
	return types
}()

// blockConfigs are the ways of products by blocks.
var blockConfigs = []MatrixConfig{{}, {Integers: true}, {BFloat16: true}}

// traitsOf is what the package knows of a type.
func traitsOf(t BlockType) *blocks.Traits { return blocks.Type(t).Traits() }

// fileOfBlocks is the bytes of a file with any bits, of which scales are finite.
func fileOfBlocks(r *rand.Rand, t BlockType, outputs, inputs int) []byte {
	return blockstest.File(r, blocks.Type(t), outputs, inputs)
}

// weightsIn decodes all weights of a file, an output after the other.
func weightsIn(t BlockType, data []byte) []blockstest.Weight {
	return blockstest.WeightsOf(blocks.Type(t), data)
}

// blockProduct is the definition of a product in integers, for a row and the weights of an output.
func blockProduct(t BlockType, row []float32, w []blockstest.Weight) (sum float32) {
	for k := 0; k < len(row); k += 32 {
		q, a := integersOf(row[k : k+32])
		var products [2]int64
		var minima int64
		if t == NVFP4 { // one for each half
			for i, e := range q {
				products[i/16] += w[k+i].N * int64(e)
			}
			sum = f32.FMA(float32(products[0]), float32(a*float32(w[k].D)), sum)
			sum = f32.FMA(float32(products[1]), float32(a*float32(w[k+16].D)), sum)
			continue
		}
		for i, e := range q {
			products[0] += w[k+i].Scale * w[k+i].N * int64(e)
			minima += w[k+i].Min * int64(e)
		}
		sum = f32.FMA(float32(products[0]), float32(a*float32(w[k].D)), sum)
		if traitsOf(t).HasMinima() {
			sum = f32.FMA(float32(minima), -float32(a*float32(w[k].Dmin)), sum)
		}
	}
	return sum
}

// blockShapes are products in which blocks, panels and parts of the inputs end anywhere.
var blockShapes = []productShape{
	{1, 1, 1, 256, 16, 1, 1},
	{1, 1, 3, 512, 40, 1, 1},
	{2, 3, 5, 1280, 23, 1, 1},
	{1, 1, 13, 3072, 17, 1, 1},
	{1, 1, matmul.Rows + 14, 256, 33, 1, 1},
}

// oddBlockShapes have inputs that only blocks of 32 have, or of 64.
var oddBlockShapes = []productShape{{1, 1, 2, 32, 5, 1, 1}, {1, 1, 14, 1120, 48, 1, 1},
	{1, 1, 15, 1088, 19, 1, 1}}

func blockShapesOf(t BlockType) (shapes []productShape) {
	for _, s := range append(oddBlockShapes, blockShapes...) {
		if s.k%traitsOf(t).Inputs == 0 {
			shapes = append(shapes, s)
		}
	}
	return shapes
}

// Products by matrices of blocks in integers are their definition, however they are packed and
// divided, with every implementation.
func TestBlockProductsAreTheirDefinition(t *testing.T) {
	shareSmallCalls(t)
	hosts := random(t.Name())
	for _, typ := range integerBlockTypes {
		for i, s := range blockShapesOf(typ) {
			if few() && i%2 == 1 {
				continue
			}
			r := random(fmt.Sprint(typ, s))
			data := fileOfBlocks(r, typ, s.n, s.k)
			weights := weightsIn(typ, data)
			a, dst := tensor(r, normal, s.b, s.h, s.l, s.k),
				zeros(s.b, s.h, s.l, s.n)
			clear(a.Row(0, 0, s.l-1)[:32])
			bias := tensor(r, normal, 1, 1, 1, s.n).Data
			var want []float32
			for row := range a.B * a.H * a.L {
				for c := range s.n {
					want = append(want, blockProduct(typ, a.Data[row*s.k:][:s.k],
						weights[c*s.k:][:s.k]))
				}
			}
			forEach(t, func(t *testing.T) {
				what := fmt.Sprint(typ, s)
				anyTuning(t, hosts)
				m, err := PackBlocks(data, typ, s.n, s.k, MatrixConfig{Integers: true})
				must(t, err)
				must(t, m.MatMul(dst, a, nil))
				checkProductResult(t, what, dst, nil, want)
				must(t, m.MatMul(dst, a, bias))
				checkProductResult(t, what+" with bias", dst, bias, want)
				pooled, err := threeWorkers().PackBlocks(data, typ, s.n, s.k,
					MatrixConfig{Integers: true})
				must(t, err)
				must(t, threeWorkers().MulMatrix(dst, a, pooled, bias))
				checkProductResult(t, what+" by a pool", dst, bias, want)
				inSmallUnits(t, dst, a, m)
				checkProductResult(t, what+" in many units", dst, nil, want)
				must(t, m.Close())
				must(t, pooled.Close())
			})
		}
	}
}

// Without Integers products are those by the float32 matrix that the blocks decode to, in float32
// and in bfloat16.
func TestBlockProductsInFloats(t *testing.T) {
	shareSmallCalls(t)
	for _, typ := range integerBlockTypes {
		for _, s := range blockShapesOf(typ) {
			testBlockProducts(t, typ, s, MatrixConfig{})
			testBlockProducts(t, typ, s, MatrixConfig{BFloat16: true})
		}
	}
}

// testBlockProducts compares products by blocks with products by what they decode to.
func testBlockProducts(t *testing.T, typ BlockType, s productShape, c MatrixConfig) {
	t.Helper()
	r, hosts := random(fmt.Sprint(typ, s)), random("hosts")
	data := fileOfBlocks(r, typ, s.n, s.k)
	w := zeros(1, 1, s.n, s.k)
	for i, e := range weightsIn(typ, data) {
		w.Data[i] = float32(e.Value())
	}
	a, dst, want := tensor(r, normal, s.b, s.h, s.l, s.k),
		zeros(s.b, s.h, s.l, s.n), zeros(s.b, s.h, s.l, s.n)
	floats, err := PackMatrix(w, MatrixConfig{Transposed: true, BFloat16: c.BFloat16})
	must(t, err)
	must(t, floats.MatMul(want, a, nil))
	must(t, floats.Close())
	forEach(t, func(t *testing.T) {
		what := fmt.Sprint(typ, s, c.BFloat16)
		anyTuning(t, hosts)
		m, err := (*Pool)(nil).PackBlocks(data, typ, s.n, s.k, c)
		must(t, err)
		must(t, m.MatMul(dst, a, nil))
		mustEqualBits(t, what, dst.Data, want.Data)
		must(t, threeWorkers().MulMatrix(dst, a, m, nil))
		mustEqualBits(t, what+" by a pool", dst.Data, want.Data)
		inSmallUnits(t, dst, a, m)
		mustEqualBits(t, what+" in many units", dst.Data, want.Data)
		rows := zeros(1, 1, 2, s.k)
		must(t, m.Rows(rows, []int32{int32(s.n) - 1, 1}))
		mustEqualBits(t, what+", a row", rows.row(0, 0, 0), w.row(0, 0, s.n-1))
		mustEqualBits(t, what+", another row", rows.row(0, 0, 1), w.row(0, 0, 1))
		must(t, m.Close())
	})
}

// Products by blocks in bfloat16 differ from float64 by what rounding both sides explains.
func TestBlockProductsInBFloat16AreAccurate(t *testing.T) {
	const inner, cols, rows = 2048, 32, 4
	for _, typ := range integerBlockTypes {
		r := random(typ.String())
		data := fileOfBlocks(r, typ, cols, inner)
		a, dst := tensor(r, normal, 1, 1, rows, inner), zeros(1, 1, rows, cols)
		m, err := PackBlocks(data, typ, cols, inner, MatrixConfig{BFloat16: true})
		must(t, err)
		must(t, m.MatMul(dst, a, nil))
		must(t, m.Close())
		weights := weightsIn(typ, data)
		var errors, squares float64 // of each product, over the size of what is summed
		for l := range rows {
			for c := range cols {
				var want, size float64
				for k, e := range a.Row(0, 0, l) {
					x := float64(e) * weights[c*inner+k].Value()
					want, size = want+x, size+x*x
				}
				errors += math.Pow(float64(dst.Row(0, 0, l)[c])-want, 2) / size
				squares++
			}
		}
		if got := math.Sqrt(errors / squares); got > 0.0029 || got < 0.001 {
			t.Errorf("%v: the error is %.5f of a product's size, want about 0.0023", typ, got)
		}
	}
}

// Products in integers differ from float64 by what rounding inputs to 8 bits explains.
func TestBlockProductsAreAccurate(t *testing.T) {
	const inner, cols, rows = 2048, 32, 4
	for _, typ := range integerBlockTypes {
		r := random(typ.String())
		data := fileOfBlocks(r, typ, cols, inner)
		for at := 0; at < len(data); at += traitsOf(typ).Bytes { // of like size
			for _, s := range blockstest.ScaleBytes(blocks.Type(typ)) {
				blockstest.PutScale(blocks.Type(typ), data[at:], s, f32.ToF16(0.01+0.01*r.Float32()))
			}
			for i := range map[BlockType]int{MXFP4: 1, NVFP4: 4}[typ] {
				data[at+i] = byte(120 + r.IntN(2))
			}
		}
		weights := weightsIn(typ, data)
		a, dst := tensor(r, normal, 1, 1, rows, inner), zeros(1, 1, rows, cols)
		m, err := PackBlocks(data, typ, cols, inner, MatrixConfig{Integers: true})
		must(t, err)
		must(t, m.MatMul(dst, a, nil))
		var errors, bounds float64
		for l := range rows {
			for c := range cols {
				var want float64
				for k, e := range a.Row(0, 0, l) {
					w := weights[c*inner+k].Value()
					want += float64(e) * w
					bounds += w * w / 12 * 0.02 * 0.02 // scale of 32 normal numbers, about 2.1/127
				}
				errors += math.Pow(float64(dst.Row(0, 0, l)[c])-want, 2)
			}
		}
		if got := math.Sqrt(errors / bounds); got > 1.2 || got < 0.4 {
			t.Errorf("%v: errors are %.2f of what rounding inputs explains", typ, got)
		}
		must(t, m.Close())
	}
}

// Plain halves become what PackMatrix makes of the same numbers.
func TestBlocksOfHalves(t *testing.T) {
	for typ, format := range map[BlockType]Format{BlockF16: F16, BlockBF16: BF16} {
		const cols, inner = 37, 2*matmul.Inner + 9
		w := tensor(random(t.Name()), normal, 1, 1, cols, inner)
		var data []byte
		for _, e := range w.Data {
			h := f32.ToF16(e)
			if typ == BlockBF16 {
				h = f32.ToBF16(e)
			}
			data = binary.LittleEndian.AppendUint16(data, h)
		}
		want, err := PackMatrix(w, MatrixConfig{Format: format, Transposed: true})
		must(t, err)
		for _, pool := range []*Pool{nil, threeWorkers()} {
			m, err := pool.PackBlocks(data, typ, cols, inner, MatrixConfig{})
			must(t, err)
			mustEqualFiles(t, typ.String(), matrixFileOf(t, m), matrixFileOf(t, want))
			mustMultiplyAlike(t, typ.String(), m, want, 3)
			must(t, m.Close())
		}
		must(t, want.Close())
	}
}

// A row that is not finite is NaN, and no other is.
func TestBlockProductsNotFinite(t *testing.T) {
	for _, typ := range integerBlockTypes {
		m, err := PackBlocks(fileOfBlocks(random("b"), typ, 20, 512), typ, 20, 512,
			MatrixConfig{Integers: true})
		must(t, err)
		for _, bad := range []float32{nan32(), float32(math.Inf(1)), negInf} {
			a, dst := tensor(random("inputs"), normal, 1, 1, 5, 512), zeros(1, 1, 5, 20)
			a.Row(0, 0, 3)[290] = bad
			must(t, m.MatMul(dst, a, nil))
			for i, e := range dst.Data {
				if (e != e) != (i/20 == 3) {
					t.Fatalf("%v, %v in row 3: element %d of row %d is %v", typ, bad, i%20, i/20, e)
				}
			}
		}
		must(t, m.Close())
	}
}

// Blocks take the memory of the file and at most 7 % more, where outputs fill panels.
func TestBlocksMemoryUse(t *testing.T) {
	for _, typ := range integerBlockTypes {
		file := 64 * 1024 / traitsOf(typ).Inputs * traitsOf(typ).Bytes
		m, err := PackBlocks(make([]byte, file), typ, 64, 1024, MatrixConfig{})
		must(t, err)
		if got := m.MemoryUse(); got < file || float64(got) > 1.07*float64(file) {
			t.Errorf("%v: MemoryUse is %d, the file has %d", typ, got, file)
		}
		if b, h, inputs, outputs := m.Dims(); b != 1 || h != 1 || inputs != 1024 || outputs != 64 {
			t.Errorf("%v: Dims are %d, %d, %d, %d", typ, b, h, inputs, outputs)
		}
		must(t, m.Close())
	}
}

func TestPackBlocksErrors(t *testing.T) {
	fails := func(data int, typ BlockType, outputs, inputs int, c MatrixConfig, kind error,
		text string) {
		t.Helper()
		m, err := PackBlocks(make([]byte, data), typ, outputs, inputs, c)
		mustFail(t, typ.String(), err, kind, text)
		if m != nil {
			t.Errorf("there is a matrix beside the error")
		}
	}
	none := MatrixConfig{}
	for _, t := range []BlockType{0, BlockType(blocks.Last) + 1} {
		fails(18, t, 1, 32, none, ErrOption, fmt.Sprintf(
			"t is BlockType(%d), want a block type, Q8_0 to %v", int(t), blocks.Last))
	}
	fails(18, Q4_0, 1, 32, MatrixConfig{Format: F16}, ErrOption,
		"MatrixConfig.Format is F16, want it unset: t says it")
	fails(18, Q4_0, 1, 32, MatrixConfig{Transposed: true}, ErrOption,
		"MatrixConfig.Transposed is true, want it unset: blocks are rows of outputs")
	fails(64, BlockF16, 1, 32, MatrixConfig{Integers: true}, ErrOption,
		"MatrixConfig.Integers is true with BlockF16, want false: its weights are no integers")
	fails(0, Q4_0, 0, 32, none, ErrShape, "outputs is 0, want 1 to 268435456")
	fails(0, Q4_0, 1, 0, none, ErrShape,
		"inputs is 0, want a multiple of 32 for Q4_0, at most 268435456")
	fails(36, Q4_0, 1, 48, none, ErrShape,
		"inputs is 48, want a multiple of 32 for Q4_0, at most 268435456")
	fails(144, Q4_K, 1, 128, none, ErrShape,
		"inputs is 128, want a multiple of 256 for Q4_K, at most 268435456")
	fails(0, Q4_0, maxLength, maxLength, none, ErrShape, fmt.Sprintf(
		"the matrix is 268435456×268435456, want at most %d elements", maxElements))
	fails(17, Q4_0, 1, 32, none, ErrLength, "len(data) is 17, want 18 for 1×32 weights of Q4_0")
	fails(19, Q4_0, 1, 32, none, ErrLength, "len(data) is 19, want 18 for 1×32 weights of Q4_0")
}

// Scales that are not finite are refused, the first one by name, however the matrix is packed.
func TestPackBlocksRefusesScales(t *testing.T) {
	shareSmallCalls(t)
	for _, typ := range integerBlockTypes {
		of := traitsOf(typ)
		const outputs = 40
		inputs := 3 * of.Inputs
		good := fileOfBlocks(random("scales"), typ, outputs, inputs)
		set := func(data []byte, block, at int, scale uint16) {
			data = data[block*of.Bytes+at:]
			if typ == MXFP4 {
				data[0] = byte(253 + scale%3)
				return
			}
			if typ == NVFP4 {
				data[0] = byte(127 + scale%129)
				return
			}
			blockstest.PutScale(blocks.Type(typ), data, 0, scale)
		}
		places := blockstest.ScaleBytes(blocks.Type(typ))
		switch typ {
		case MXFP4:
			places = []int{0}
		case NVFP4:
			places = []int{0, 3}
		}
		for _, at := range places {
			for _, scale := range []uint16{0x7c00, 0xfc00, 0x7e01, 0xffff} {
				data := bytes.Clone(good)
				set(data, 3*17+1, at, scale)
				set(data, 3*38+2, at, scale)
				second := "dmin"
				if traitsOf(typ).Scaling == blocks.Offset {
					second = "m"
				}
				name := map[int]string{traitsOf(typ).At.D + 2: second}
				text := fmt.Sprintf("data of %v: block 1 of output 17: the scale %s is %v, want a finite "+
					"number", typ, cmp.Or(name[at], "d"), f32.FromF16(scale))
				if typ == MXFP4 {
					text = fmt.Sprintf("data of MXFP4: block 1 of output 17: the exponent of the scale is %d, "+
						"want 0 to 252", 253+scale%3)
				}
				if typ == NVFP4 {
					text = fmt.Sprintf("data of NVFP4: block 1 of output 17: the byte of scale %d is %#02x, "+
						"want 0x00 to 0x7e", at, 127+scale%129)
				}
				for _, pool := range []*Pool{nil, threeWorkers()} {
					_, err := pool.PackBlocks(data, typ, outputs, inputs, MatrixConfig{})
					mustFail(t, typ.String(), err, ErrOption, text)
				}
			}
		}
	}
}

// A matrix of blocks that was written and read is the same, and multiplies alike.
func TestBlockFiles(t *testing.T) {
	for _, typ := range integerBlockTypes {
		for _, c := range blockConfigs {
			want, err := PackBlocks(fileOfBlocks(random("file"), typ, 37, 1536), typ, 37, 1536, c)
			must(t, err)
			file := matrixFileOf(t, want)
			for _, e := range matrixReaders {
				m, err := e.read(t, file)
				must(t, err)
				what := fmt.Sprint(typ, c, e.name)
				mustEqualMatrices(t, what, m, want)
				mustEqualFiles(t, what, matrixFileOf(t, m), file)
				mustMultiplyAlike(t, what, m, want, 2)
				must(t, m.Close())
			}
			must(t, want.Close())
		}
	}
}

// What Save cannot have written is refused, and the fault is named.
func TestBlockFilesAreChecked(t *testing.T) {
	for _, typ := range integerBlockTypes {
		m, err := PackBlocks(fileOfBlocks(random("file"), typ, 17, 256), typ, 17, 256, MatrixConfig{})
		must(t, err)
		spoil := func(what, text string, change func(data []byte)) {
			t.Helper()
			before := bytes.Clone(m.body.Elements())
			change(m.body.Elements())
			_, err := LoadMatrix(bytes.NewReader(matrixFileOf(t, m)))
			mustFail(t, fmt.Sprint(typ, " ", what), err, ErrFormat, text)
			copy(m.body.Elements(), before)
		}
		of := traitsOf(typ)
		const (
			first     = "elements: block 0 of outputs 0 to 15: "
			notFinite = "the scale d is %v, want a finite number"
		)
		spoil("an output too many", fmt.Sprintf("elements: block %d of outputs 16 to 16: byte %d is 1, "+
			"want 0", 256/of.Inputs-1, of.Packed-1), func(x []byte) { x[len(x)-1] = 1 })
		switch typ {
		case Q8_0, Q6_K, Q3_K, TQ1_0:
			spoil("an infinite scale", first+fmt.Sprintf(notFinite, "+Inf"),
				func(x []byte) { copy(x, []byte{0, 0x7c}) })
		case MXFP4:
			spoil("a scale of more bits", first+"byte 0 is 1, want 0", func(x []byte) { x[0] |= 1 })
		case NVFP4:
			spoil("a scale with a sign", first+"the byte of scale 0 is 0x80, want 0x00 to 0x7e",
				func(x []byte) { x[0] = 0x80 })
		case IQ4_XS:
			spoil("a scale of 7 bits", first+"byte 32 is 32, want 224", func(x []byte) { x[2*panel] = 32 })
		case Q4_K, Q5_K:
			spoil("a scale of 7 bits", first+"byte 64 is 120, want 56",
				func(x []byte) { x[4*panel] |= 64 })
			spoil("NaN", first+fmt.Sprintf(notFinite, "NaN"), func(x []byte) { x[1] = 0x7f })
		default:
			spoil("NaN", first+fmt.Sprintf(notFinite, "NaN"), func(x []byte) { x[1] = 0x7f })
		}
		must(t, m.Close())
	}
}

func TestBlockTypeNames(t *testing.T) {
	for typ, want := range map[BlockType]string{Q8_0: "Q8_0", IQ4_NL: "IQ4_NL", Q6_K: "Q6_K",
		MXFP4: "MXFP4", BlockBF16: "BlockBF16", Q4_1: "Q4_1", TQ2_0: "TQ2_0",
		0: "BlockType(0)", -1: "BlockType(-1)",
		100: "BlockType(100)"} {
		if got := typ.String(); got != want {
			t.Errorf("BlockType %d is %q, want %q", int(typ), got, want)
		}
	}
}
