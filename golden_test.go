package attn

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// testdata/golden.txt holds hashes of what a fixed set of calls returns. Every
// implementation on every architecture, little-endian or big, must return these
// bits: the file is not made for one of them. The inputs come from integers by
// exact operations, so that they are the same everywhere, too.

var updateGolden = flag.Bool("update-golden", false,
	"write testdata/golden.txt anew: the numeric contract has changed")

var goldenFile = filepath.Join("testdata", "golden.txt")

// goldenRandom is the generator of a call's inputs: always the same for its name.
func goldenRandom(name string) *rand.Rand {
	seed := sha256.Sum256([]byte(name))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]),
		binary.LittleEndian.Uint64(seed[8:16])))
}

// goldenInput returns n multiples of 2⁻²⁰ in [−size, size), size at most 8. A few of them
// are zeros of either sign.
func goldenInput(r *rand.Rand, n int, size float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		bits := r.Uint64()
		x[i] = float32(int32(bits>>43)-1<<20) * (1.0 / (1 << 20)) * size
		if bits&63 == 0 {
			x[i] = float32(math.Copysign(0, float64(int64(bits<<50))))
		}
	}
	return x
}

func goldenTensor(r *rand.Rand, size float32, b, h, l, d int) Tensor {
	return BHLD(goldenInput(r, b*h*l*d, size), b, h, l, d)
}

// goldenHash is a hash of the values' bits, all NaN counting as one.
func goldenHash(values ...[]float32) string {
	h := sha256.New()
	for _, x := range values {
		words := make([]byte, 0, 4*len(x))
		for _, e := range x {
			bits := math.Float32bits(e)
			if e != e {
				bits = 0x7fc00000
			}
			words = binary.LittleEndian.AppendUint32(words, bits)
		}
		h.Write(words)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// golden is one call: run returns the outputs.
type golden struct {
	name string
	run  func(t *testing.T, r *rand.Rand) [][]float32
}

// attendGolden is Attend on tensors of a shape, with all optional outputs.
func attendGolden(name string, s shape, set func(r *rand.Rand, o *Options)) golden {
	return golden{"Attend/" + name, func(t *testing.T, r *rand.Rand) [][]float32 {
		h := s.kvh * s.group
		q, k := goldenTensor(r, 4, s.b, h, s.lq, s.d), goldenTensor(r, 4, s.b, s.kvh, s.lk, s.d)
		v, dst := goldenTensor(r, 2, s.b, s.kvh, s.lk, s.dv), zeros(s.b, h, s.lq, s.dv)
		w := zeros(s.b, h, s.lq, s.lk)
		o := Options{LSE: make([]float32, s.b*h*s.lq), Weights: w}
		if set != nil {
			set(r, &o)
		}
		must(t, Attend(dst, q, k, v, &o))
		return [][]float32{dst.Data, o.LSE, w.Data}
	}}
}

// goldens lists the calls. Shapes have rows in whole and ragged tiles, dimensions in whole and
// ragged vectors, more than one segment of keys, and each option alone and with others.
func goldens() []golden {
	window := func(left, right int) func(*rand.Rand, *Options) {
		return func(_ *rand.Rand, o *Options) {
			o.Window, o.Causal = Window{left + 1, right + 1}, BottomRight
		}
	}
	list := []golden{
		attendGolden("one", shape{1, 1, 1, 1, 1, 1, 1}, nil),
		attendGolden("decode", shape{1, 1, 1, 1, 1500, 64, 64}, nil),
		attendGolden("decode/group", shape{1, 2, 4, 1, 300, 72, 24}, nil),
		attendGolden("decode/ragged", shape{1, 1, 3, 1, 131, 13, 11}, nil),
		attendGolden("prefill", shape{1, 2, 1, 77, 77, 32, 32}, func(_ *rand.Rand, o *Options) {
			o.Causal = TopLeft
		}),
		attendGolden("prefill/ragged", shape{2, 1, 2, 29, 75, 37, 19}, nil),
		attendGolden("prefill/long", shape{1, 1, 1, 30, 2100, 16, 16}, nil),
		attendGolden("causal/bottomRight", shape{1, 1, 2, 40, 100, 24, 40},
			func(_ *rand.Rand, o *Options) {
				o.Causal = BottomRight
			}),
		attendGolden("causal/offset", shape{1, 1, 1, 33, 100, 24, 8}, func(_ *rand.Rand, o *Options) {
			o.Causal, o.Offset = TopLeft, 61
		}),
		attendGolden("window", shape{1, 1, 1, 90, 200, 16, 16}, window(37, 0)),
		attendGolden("window/right", shape{1, 1, 1, 90, 200, 16, 16}, window(0, 5)),
		attendGolden("scale", shape{1, 1, 1, 7, 50, 16, 16}, func(_ *rand.Rand, o *Options) {
			o.Scale = 3
		}),
		attendGolden("softcap", shape{1, 1, 1, 26, 150, 16, 16}, func(_ *rand.Rand, o *Options) {
			o.Softcap = 5
		}),
		attendGolden("lengths", shape{3, 1, 1, 20, 90, 16, 16}, func(_ *rand.Rand, o *Options) {
			o.QueryLens, o.KeyLens = []int{20, 7, 13}, []int{90, 65, 0}
		}),
		attendGolden("lse of empty rows", shape{1, 1, 1, 20, 10, 16, 16}, func(_ *rand.Rand, o *Options) {
			o.Causal = BottomRight
		}),
	}
	for _, s := range []shape{{2, 2, 2, 27, 140, 24, 24}, {1, 1, 1, 2, 1100, 40, 13}} {
		pairs := func(r *rand.Rand, size float32) Tensor {
			return goldenTensor(r, size, s.b, s.kvh*s.group, s.lq, s.lk)
		}
		mask := func(r *rand.Rand, o *Options) {
			x := pairs(r, 1)
			m := BHLD(make([]bool, len(x.Data)), x.B, x.H, x.L, x.D)
			for i, e := range x.Data {
				m.Data[i] = e < 0.5
			}
			o.Mask = m
		}
		bias := func(r *rand.Rand, o *Options) {
			x := pairs(r, 2)
			for i, e := range x.Data {
				if e > 1.5 {
					x.Data[i] = negInf
				}
			}
			o.Bias = x
		}
		distance := func(r *rand.Rand, o *Options) {
			h := s.kvh * s.group
			o.Distance = Distance{Query: goldenTensor(r, 2, 1, h, s.lq, 32),
				Key: goldenTensor(r, 2, s.b, 1, s.lk, 32), Buckets: logBuckets(90, 8, 32)}
			o.Causal = BottomRight
		}
		slopes := func(r *rand.Rand, o *Options) { o.Slopes = goldenInput(r, s.kvh*s.group, 1) }
		sinks := func(r *rand.Rand, o *Options) { o.Sinks = goldenInput(r, s.kvh*s.group, 4) }
		suffix := fmt.Sprintf("/keys=%d", s.lk)
		list = append(list,
			attendGolden("mask"+suffix, s, mask), attendGolden("bias"+suffix, s, bias),
			attendGolden("distance"+suffix, s, distance),
			attendGolden("slopes"+suffix, s, slopes), attendGolden("sinks"+suffix, s, sinks),
			attendGolden("all"+suffix, s, func(r *rand.Rand, o *Options) {
				mask(r, o)
				bias(r, o)
				slopes(r, o)
				sinks(r, o)
				o.Causal, o.Softcap, o.Window = BottomRight, 8, Window{Left: 101, Right: 1}
			}))
	}
	list = append(list, golden{"Attend/not finite", notFiniteGolden}, golden{"State", stateGolden},
		golden{"Cache", cacheGolden},
		golden{"Cache with ValuesInKeys", latentGolden}, golden{"Cache of I4", levelGolden},
		golden{"MatMul", matMulGolden}, golden{"MatMulTransposed", transposedGolden},
		golden{"Products in bfloat16", bfloat16Golden},
		golden{"Attention in bfloat16", bfloat16AttendGolden})
	for _, typ := range integerBlockTypes {
		list = append(list, golden{"PackBlocks/" + typ.String(),
			func(t *testing.T, r *rand.Rand) [][]float32 {
				return blocksGolden(t, r, typ, MatrixConfig{}, MatrixConfig{Integers: true})
			}}, golden{"PackBlocks in bfloat16/" + typ.String(),
			func(t *testing.T, r *rand.Rand) [][]float32 {
				return blocksGolden(t, r, typ, MatrixConfig{BFloat16: true})
			}})
	}
	for _, n := range []int{0, 1, 2, 3, 5, 15, 16, 64, 67, 1000} {
		list = append(list, golden{fmt.Sprintf("vector/n=%d", n),
			func(t *testing.T, r *rand.Rand) [][]float32 {
				return vectorGolden(r, n)
			}})
	}
	return append(list, golden{"Exp/every exponent", expGolden})
}

// notFiniteGolden has NaN and infinities among visible and masked keys.
func notFiniteGolden(t *testing.T, r *rand.Rand) [][]float32 {
	const lq, lk, d = 30, 130, 16
	q, k, v := goldenTensor(r, 4, 1, 1, lq, d), goldenTensor(r, 4, 1, 1, lk, d), goldenTensor(r, 4, 1,
		1, lk, d)
	inf := float32(math.Inf(1))
	q.Data[3*d], q.Data[4*d], q.Data[5*d] = float32(math.NaN()), inf, 3e38
	k.Data[110*d+1], v.Data[100*d+2], v.Data[120*d+3], v.Data[7*d+4] = float32(math.NaN()), inf,
		float32(math.NaN()), -inf
	dst := zeros(1, 1, lq, d)
	o := Options{Causal: BottomRight, LSE: make([]float32, lq)}
	must(t, Attend(dst, q, k, v, &o))
	return [][]float32{dst.Data, o.LSE}
}

// stateGolden gives keys to two states and merges them.
func stateGolden(t *testing.T, r *rand.Rand) [][]float32 {
	const b, h, lq, d, dv = 1, 2, 5, 20, 12
	q := goldenTensor(r, 4, b, h, lq, d)
	var s [2]*State
	for i, lk := range []int{Segment, 300} {
		var err error
		s[i], err = NewState(StateConfig{b, h, lq, dv})
		must(t, err)
		must(t, s[i].Update(q, goldenTensor(r, 4, b, h, lk, d), goldenTensor(r, 2, b, h, lk, dv), nil))
	}
	must(t, s[0].Merge(s[1]))
	dst, lse := zeros(b, h, lq, dv), make([]float32, b*h*lq)
	must(t, s[0].Finish(dst, lse))
	return [][]float32{dst.Data, lse}
}

// cacheGolden appends keys in two steps and attends after each.
func cacheGolden(t *testing.T, r *rand.Rand) [][]float32 {
	const b, h, group, d, dv = 1, 2, 3, 24, 20
	c, err := NewCache(CacheConfig{Batch: b, KVHeads: h, HeadDim: d, ValueDim: dv, Capacity: 200})
	must(t, err)
	var out [][]float32
	for _, n := range []int{129, 1} {
		must(t, c.Append(goldenTensor(r, 4, b, h, n, d), goldenTensor(r, 2, b, h, n, dv)))
		dst := BHLD(make([]float32, b*h*group*n*dv), b, h*group, n, dv)
		must(t, c.Attend(dst, goldenTensor(r, 4, b, h*group, n, d), &Options{Causal: BottomRight}))
		out = append(out, dst.Data)
	}
	return out
}

// latentGolden attends over caches of float32 and of integers whose values are part of keys.
func latentGolden(t *testing.T, r *rand.Rand) [][]float32 {
	const b, h, group, d, dv, n = 2, 1, 20, 44, 24, 150
	var out [][]float32
	for _, kind := range []Format{F32, BF16, I8} {
		c, err := NewCache(CacheConfig{Batch: b, KVHeads: h, HeadDim: d, ValueDim: dv, Capacity: n,
			Format: kind, ValuesInKeys: true})
		must(t, err)
		must(t, c.Append(goldenTensor(r, 4, b, h, n, d), Tensor{}))
		for _, lq := range []int{1, 5} {
			dst := BHLD(make([]float32, b*h*group*lq*dv), b, h*group, lq, dv)
			opt := &Options{Causal: BottomRight, Integers: kind == I8 && lq == 1}
			must(t, c.Attend(dst, goldenTensor(r, 4, b, h*group, lq, d), opt))
			out = append(out, dst.Data)
		}
	}
	return out
}

// levelGolden attends over caches with values, and keys, in I4.
func levelGolden(t *testing.T, r *rand.Rand) [][]float32 {
	const b, h, group, d, dv, n = 1, 2, 5, 44, 40, 150
	var out [][]float32
	for _, config := range []CacheConfig{{Format: I4}, {Format: I8, ValueFormat: I4},
		{Format: F16, ValueFormat: I4}} {
		config.Batch, config.KVHeads, config.HeadDim, config.ValueDim, config.Capacity = b, h, d, dv, n
		c, err := NewCache(config)
		must(t, err)
		must(t, c.Append(goldenTensor(r, 4, b, h, n, d), goldenTensor(r, 2, b, h, n, dv)))
		for _, lq := range []int{1, 5} {
			dst := BHLD(make([]float32, b*h*group*lq*dv), b, h*group, lq, dv)
			opt := &Options{Causal: BottomRight, Integers: config.Format != F16 && lq == 1}
			must(t, c.Attend(dst, goldenTensor(r, 4, b, h*group, lq, d), opt))
			out = append(out, dst.Data)
		}
	}
	return out
}

func matMulGolden(t *testing.T, r *rand.Rand) [][]float32 {
	var out [][]float32
	for _, s := range [][3]int{{1, 1, 1}, {7, 70, 33}, {1, 100, 48}, {30, 65, 100}} {
		dst := BHLD(make([]float32, s[0]*s[2]), 1, 1, s[0], s[2])
		must(t, MatMul(dst, goldenTensor(r, 4, 1, 1, s[0], s[1]), goldenTensor(r, 4, 1, 1, s[1], s[2])))
		out = append(out, dst.Data)
	}
	return out
}

func transposedGolden(t *testing.T, r *rand.Rand) (out [][]float32) {
	for _, s := range [][3]int{{1, 1, 1}, {7, 70, 33}, {1, 100, 48}, {3, 1100, 17}, {30, 300, 100}} {
		dst := zeros(1, 1, s[0], s[2])
		must(t, MatMulTransposed(dst, goldenTensor(r, 4, 1, 1, s[0], s[1]),
			goldenTensor(r, 4, 1, 1, s[2], s[1])))
		out = append(out, dst.Data)
	}
	return out
}

// bfloat16Golden multiplies in bfloat16, also by numbers whose products lie about 2⁻¹²⁶.
func bfloat16Golden(t *testing.T, r *rand.Rand) (out [][]float32) {
	for _, s := range [][3]int{{1, 1, 1}, {7, 70, 33}, {1, 600, 48}, {40, 65, 100}} {
		for _, size := range []float32{4, 0x1p-62} {
			m, err := PackMatrix(goldenTensor(r, size, 1, 1, s[1], s[2]), MatrixConfig{BFloat16: true})
			must(t, err)
			dst := BHLD(make([]float32, s[0]*s[2]), 1, 1, s[0], s[2])
			must(t, m.MatMul(dst, goldenTensor(r, size, 1, 1, s[0], s[1]), goldenInput(r, s[2], size*size)))
			out = append(out, dst.Data)
			must(t, m.Close())
		}
	}
	return out
}

// bfloat16AttendGolden attends in bfloat16: in whole and ragged tiles, over views and caches, with
// weights about the cut, scores about 2⁻¹²⁶, and values that are not finite.
func bfloat16AttendGolden(t *testing.T, r *rand.Rand) (out [][]float32) {
	for i, s := range []shape{{1, 1, 1, 1, 1, 1, 1}, {2, 1, 3, 27, 140, 37, 19},
		{1, 2, 1, 77, 77, 64, 64}, {1, 1, 1, 2, 2100, 40, 13}} {
		for _, size := range []float32{4, 40, 0x1p-62} {
			h := s.kvh * s.group
			q, k := goldenTensor(r, size, s.b, h, s.lq, s.d), goldenTensor(r, 4, s.b, s.kvh, s.lk, s.d)
			v, dst := goldenTensor(r, 2, s.b, s.kvh, s.lk, s.dv), zeros(s.b, h, s.lq, s.dv)
			o := Options{BFloat16: true, Causal: BottomRight, LSE: make([]float32, s.b*h*s.lq),
				Weights: zeros(s.b, h, s.lq, s.lk)}
			switch i {
			case 1:
				o.Softcap, o.Slopes = 30, goldenInput(r, h, 1)
			case 2:
				o.Sinks, v.Data[70*64+5] = goldenInput(r, h, 4), float32(math.Inf(1))
			}
			must(t, Attend(dst, q, k, v, &o))
			out = append(out, dst.Data, o.LSE, o.Weights.Data)
			c, err := filledIn([]Format{F16, BF16}[i%2], k, v)
			must(t, err)
			dst = zeros(s.b, h, s.lq, s.dv)
			o.LSE, o.Weights = nil, Tensor{}
			must(t, c.Attend(dst, q, &o))
			out = append(out, dst.Data)
			must(t, c.Close())
		}
	}
	return out
}

// blocksGolden multiplies by blocks of any bits in some ways, and reads their rows.
func blocksGolden(t *testing.T, r *rand.Rand, typ BlockType,
	ways ...MatrixConfig) (out [][]float32) {
	const inputs, outputs = 512, 20
	data := fileOfBlocks(r, typ, outputs, inputs)
	for _, c := range ways {
		m, err := PackBlocks(data, typ, outputs, inputs, c)
		must(t, err)
		for _, rows := range []int{1, 14} {
			dst := BHLD(make([]float32, rows*outputs), 1, 1, rows, outputs)
			must(t, m.MatMul(dst, goldenTensor(r, 4, 1, 1, rows, inputs), nil))
			out = append(out, dst.Data)
		}
		dst := BHLD(make([]float32, 2*inputs), 1, 1, 2, inputs)
		must(t, m.Rows(dst, []int32{19, 3}))
		out = append(out, dst.Data)
		must(t, m.Close())
	}
	return out
}

// vectorGolden is the vector primitives on n elements.
func vectorGolden(r *rand.Rand, n int) [][]float32 {
	a, b := goldenInput(r, n, 8), goldenInput(r, n, 8)
	exp, terms, soft := make([]float32, n), make([]float32, n), make([]float32, n)
	Exp(exp, a)
	sum := ExpSum(terms, b, 4)
	Softmax(soft, a)
	return [][]float32{exp, terms, soft, {sum, Dot(a, b), Max(a), LogSumExp(b)}}
}

// expGolden is Exp over arguments of every sign and exponent.
func expGolden(_ *testing.T, r *rand.Rand) [][]float32 {
	x := make([]float32, 0, 512*32)
	for high := range uint32(512) {
		for range 32 {
			x = append(x, math.Float32frombits(high<<23|r.Uint32()>>9))
		}
	}
	Exp(x, x)
	return [][]float32{x}
}

// goldenText computes the file: a line of hash and name for each call.
func goldenText(t *testing.T) []byte {
	var text bytes.Buffer
	for _, g := range goldens() {
		fmt.Fprintf(&text, "%s %s\n", goldenHash(g.run(t, goldenRandom(g.name))...), g.name)
	}
	return text.Bytes()
}

// TestGolden compares every implementation of this machine with the file.
func TestGolden(t *testing.T) {
	if *updateGolden {
		use(t, tuning.Generic)
		must(t, os.WriteFile(goldenFile, goldenText(t), 0o644))
	}
	t.Run("by choice", compareGolden) // forEach uses kernels that this CPU may not prefer
	forEach(t, compareGolden)
}

// compareGolden compares what the calls return now with the file.
func compareGolden(t *testing.T) {
	file, err := os.ReadFile(goldenFile)
	must(t, err)
	want := strings.Split(string(file), "\n")
	got := strings.Split(string(goldenText(t)), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d calls, but %s has %d", len(got)-1, goldenFile, len(want)-1)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got %q, %s has %q", got[i], goldenFile, want[i])
		}
	}
}
