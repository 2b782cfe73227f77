package attn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// call is a valid call, for tests to spoil.
type call struct {
	dst, q, k, v Tensor
	opt          Options
}

func newCall() *call {
	r := random("call")
	c := &call{
		dst: tensor(r, normal, 2, 4, 3, 6), q: tensor(r, normal, 2, 4, 3, 5),
		k: tensor(r, normal, 2, 2, 7, 5), v: tensor(r, normal, 2, 2, 7, 6),
	}
	mask := BHLD(make([]bool, 2*4*3*7), 2, 4, 3, 7)
	for i := range mask.Data {
		mask.Data[i] = i%5 != 0
	}
	c.opt = Options{
		Mask: mask, Bias: tensor(r, normal, 2, 4, 3, 7), Weights: tensor(r, normal, 2, 4, 3, 7),
		Slopes: tensor(r, normal, 1, 1, 1, 4).Data, Sinks: tensor(r, normal, 1, 1, 1, 4).Data,
		QueryLens: []int{3, 2}, KeyLens: []int{7, 4},
		LSE: tensor(r, normal, 1, 1, 1, 2*4*3).Data,
	}
	return c
}

func (c *call) attend() error { return Attend(c.dst, c.q, c.k, c.v, &c.opt) }

// misuse is one way to spoil a call. The error must say all of mentions: the
// argument, its actual and its expected value.
type misuse struct {
	name     string
	spoil    func(c *call)
	kind     error
	mentions []string
}

func says(parts ...string) []string { return parts }

// pairShape is the shape of options that may be one for all.
const pairShape = "[2 or 1, 4 or 1, 3 or 1, 7]; a stride of attn.Broadcast repeats"

var misuses = []misuse{
	{"v.B", func(c *call) { c.v.B = 1 }, ErrShape, says("v", "[1 2 7", "[2 2 7")},
	{"v.H", func(c *call) { c.v.H = 1 }, ErrShape, says("v", "[2 1 7", "[2 2 7")},
	{"v.L", func(c *call) { c.v.L = 6 }, ErrShape, says("v", "[2 2 6", "[2 2 7")},
	{"q.B", func(c *call) { c.q.B = 1 }, ErrShape, says("q.B", "1", "2")},
	{"q.D", func(c *call) { c.q.D = 4 }, ErrShape, says("q.D", "4", "5")},
	{"q.H not a multiple", func(c *call) { c.q.H = 3 }, ErrShape, says("q.H", "3", "multiple", "2")},
	{"no key heads", func(c *call) { c.k.H, c.v.H = 0, 0 }, ErrShape, says("q.H", "4", "0")},
	{"dst.B", func(c *call) { c.dst.B = 1 }, ErrShape, says("dst", "[1 4 3 6]", "[2 4 3 6]")},
	{"dst.H", func(c *call) { c.dst.H = 3 }, ErrShape, says("dst", "[2 3 3 6]", "[2 4 3 6]")},
	{"dst.L", func(c *call) { c.dst.L = 2 }, ErrShape, says("dst", "[2 4 2 6]", "[2 4 3 6]")},
	{"dst.D", func(c *call) { c.dst.D = 5 }, ErrShape, says("dst", "[2 4 3 5]", "[2 4 3 6]")},

	{"dst rows coincide", func(c *call) { c.dst.SL = 5 }, ErrStride, says("dst", "5", "6")},
	{"dst broadcasts", func(c *call) { c.dst.SB = Broadcast }, ErrStride,
		says("dst", "Broadcast", "6")},
	{"dst heads coincide", func(c *call) { c.dst.SH = 17 }, ErrStride, says("dst", "17", "18")},
	{"Weights rows coincide", func(c *call) {
		c.opt.Weights.SL = 6
	}, ErrStride, says("Weights", "6", "7")},

	{"Scale NaN", func(c *call) {
		c.opt.Scale = float32(math.NaN())
	}, ErrOption, says("Scale", "NaN", "finite")},
	{"Scale +Inf", func(c *call) {
		c.opt.Scale = float32(math.Inf(1))
	}, ErrOption, says("Scale", "+Inf", "finite")},
	{"Scale -Inf", func(c *call) { c.opt.Scale = negInf }, ErrOption, says("Scale", "-Inf", "finite")},
	{"Softcap NaN", func(c *call) {
		c.opt.Softcap = float32(math.NaN())
	}, ErrOption, says("Softcap", "NaN", "0")},
	{"Softcap negative", func(c *call) { c.opt.Softcap = -1 }, ErrOption, says("Softcap", "-1", "0")},
	{"Softcap +Inf", func(c *call) {
		c.opt.Softcap = float32(math.Inf(1))
	}, ErrOption, says("Softcap", "+Inf", "finite")},
	{"Softcap tiny", func(c *call) {
		c.opt.Softcap = 1e-40
	}, ErrOption, says("Softcap", "1e-40", "overflows")},
	{"Causal -1", func(c *call) { c.opt.Causal = -1 }, ErrOption, says("Causal", "-1", "BottomRight")},
	{"Causal 3", func(c *call) { c.opt.Causal = 3 }, ErrOption, says("Causal", "3", "BottomRight")},
	{"Offset with BottomRight", func(c *call) {
		c.opt.Causal, c.opt.Offset = BottomRight, 1
	}, ErrOption, says("Offset", "1", "0", "BottomRight")},
	{"Offset large", func(c *call) {
		c.opt.Offset = math.MaxInt
	}, ErrOption, says("Offset", fmt.Sprint(math.MaxInt), "268435456")},
	{"Offset small", func(c *call) {
		c.opt.Offset = math.MinInt
	}, ErrOption, says("Offset", fmt.Sprint(math.MinInt), "-268435456")},
	{"Window.Left", func(c *call) {
		c.opt.Window = Window{-1, 1}
	}, ErrOption, says("Window", "-1", "0")},
	{"Window.Right", func(c *call) {
		c.opt.Window = Window{1, math.MinInt}
	}, ErrOption, says("Window", fmt.Sprint(math.MinInt), "0")},

	{"few QueryLens", func(c *call) {
		c.opt.QueryLens = []int{1}
	}, ErrLength, says("QueryLens", "1", "2")},
	{"many KeyLens", func(c *call) {
		c.opt.KeyLens = []int{1, 2, 3}
	}, ErrLength, says("KeyLens", "3", "2")},
	{"empty KeyLens", func(c *call) { c.opt.KeyLens = []int{} }, ErrLength, says("KeyLens", "0", "2")},
	{"negative QueryLens", func(c *call) {
		c.opt.QueryLens = []int{1, -5}
	}, ErrLength, says("QueryLens[1]", "-5", "3")},
	{"large KeyLens", func(c *call) {
		c.opt.KeyLens = []int{8, 1}
	}, ErrLength, says("KeyLens[0]", "8", "7")},
	{"few Slopes", func(c *call) {
		c.opt.Slopes = c.opt.Slopes[:3]
	}, ErrLength, says("Slopes", "3", "4")},
	{"no Slopes", func(c *call) { c.opt.Slopes = []float32{} }, ErrLength, says("Slopes", "0", "4")},
	{"many Sinks", func(c *call) {
		c.opt.Sinks = make([]float32, 5)
	}, ErrLength, says("Sinks", "5", "4")},
	{"short LSE", func(c *call) { c.opt.LSE = c.opt.LSE[:23] }, ErrLength, says("LSE", "23", "2×4×3")},
	{"long LSE", func(c *call) {
		c.opt.LSE = make([]float32, 25)
	}, ErrLength, says("LSE", "25", "2×4×3")},

	{"Mask.B", func(c *call) {
		c.opt.Mask = BHLD(make([]bool, 3*4*3*7), 3, 4, 3, 7)
	}, ErrShape, says("Mask", "[3 4 3 7]", pairShape)},
	{"Mask.H", func(c *call) { c.opt.Mask.H = 2 }, ErrShape, says("Mask", "[2 2 3 7]", pairShape)},
	{"Mask.L", func(c *call) { c.opt.Mask.L = 2 }, ErrShape, says("Mask", "[2 4 2 7]", pairShape)},
	{"Mask.D", func(c *call) { c.opt.Mask.D = 6 }, ErrShape, says("Mask", "[2 4 3 6]", pairShape)},
	{"Bias.H", func(c *call) { c.opt.Bias.H = 2 }, ErrShape, says("Bias", "[2 2 3 7]", pairShape)},
	{"Bias.D", func(c *call) { c.opt.Bias.D = 6 }, ErrShape, says("Bias", "[2 4 3 6]", pairShape)},
	{"Weights.B", func(c *call) {
		c.opt.Weights.B = 1
	}, ErrShape, says("Weights", "[1 4 3 7]", "[2 4 3 7]")},
	{"Weights.D", func(c *call) {
		c.opt.Weights.D = 6
	}, ErrShape, says("Weights", "[2 4 3 6]", "[2 4 3 7]")},

	{"dst is q", func(c *call) {
		c.k.D, c.v.D, c.q.D = 5, 5, 5
		c.dst = c.q
	}, ErrOverlap, says("dst", "q")},
	{"dst in k", func(c *call) { c.k.Data = joined(&c.dst, c.k) }, ErrOverlap, says("dst", "k")},
	{"dst in v", func(c *call) { c.v.Data = joined(&c.dst, c.v) }, ErrOverlap, says("dst", "v")},
	{"dst in Bias", func(c *call) {
		c.opt.Bias.Data = joined(&c.dst, c.opt.Bias)
	}, ErrOverlap, says("dst", "Bias")},
	{"dst in Sinks", func(c *call) { c.opt.Sinks = c.dst.Data[:4] }, ErrOverlap, says("dst", "Sinks")},
	{"dst in Slopes", func(c *call) {
		c.opt.Slopes = c.dst.Data[140:]
	}, ErrOverlap, says("dst", "Slopes")},
	{"LSE in dst", func(c *call) { c.opt.LSE = c.dst.Data[100:124] }, ErrOverlap, says("LSE", "dst")},
	{"LSE in q", func(c *call) { c.opt.LSE = c.q.Data[:24] }, ErrOverlap, says("LSE", "q")},
	{"LSE in Weights", func(c *call) {
		c.opt.LSE = c.opt.Weights.Data[:24]
	}, ErrOverlap, says("LSE", "Weights")},
	{"Weights is Bias", func(c *call) { c.opt.Weights = c.opt.Bias }, ErrOverlap,
		says("Weights", "Bias")},
	{"Weights in dst", func(c *call) {
		c.opt.Weights.Data = joined(&c.dst, c.opt.Weights)
	}, ErrOverlap, says("Weights", "dst")},
	{"Weights in k", func(c *call) {
		c.opt.Weights.Data = joined(&c.k, c.opt.Weights)
	}, ErrOverlap, says("Weights", "k")},
}

// joined puts a in front of the memory for b, the last element of a being the
// first of b.
func joined(a *Tensor, b Tensor) []float32 {
	both := append(a.Data[:len(a.Data):len(a.Data)], b.Data...)
	a.Data = both[:len(a.Data)]
	return both[len(a.Data)-1:]
}

// spoiledViews is what can be wrong with a single view, for every argument.
func spoiledViews() (all []misuse) {
	tensors := map[string]func(c *call) *Tensor{
		"dst": func(c *call) *Tensor { return &c.dst }, "q": func(c *call) *Tensor { return &c.q },
		"k": func(c *call) *Tensor { return &c.k }, "v": func(c *call) *Tensor { return &c.v },
		"Bias": func(c *call) *Tensor {
			return &c.opt.Bias
		}, "Weights": func(c *call) *Tensor { return &c.opt.Weights },
	}
	for name, of := range tensors {
		all = append(all, spoiledView(name, of)...)
	}
	return append(all, spoiledView("Mask", func(c *call) *Mask { return &c.opt.Mask })...)
}

func spoiledView[T any](name string, of func(c *call) *View[T]) (all []misuse) {
	dims := map[string]func(v *View[T]) *int{
		"B": func(v *View[T]) *int { return &v.B }, "H": func(v *View[T]) *int { return &v.H },
		"L": func(v *View[T]) *int { return &v.L }, "D": func(v *View[T]) *int { return &v.D },
	}
	strides := map[string]func(v *View[T]) *int{
		"SB": func(v *View[T]) *int { return &v.SB }, "SH": func(v *View[T]) *int { return &v.SH },
		"SL": func(v *View[T]) *int { return &v.SL },
	}
	for dim, at := range dims {
		for _, n := range []int{-1, math.MinInt, math.MaxInt, maxLength + 2} {
			all = append(all, misuse{fmt.Sprintf("%s.%s=%d", name, dim, n), func(c *call) { *at(of(c)) = n },
				ErrShape, says(name+"."+dim, fmt.Sprint(n), "268435456")})
		}
	}
	all = append(all, misuse{name + ".D=0", func(c *call) {
		of(c).D = 0
	}, ErrShape, says(name+".D", "0", "1")})
	for stride, at := range strides {
		for _, n := range []int{-2, math.MinInt} {
			all = append(all, misuse{fmt.Sprintf("%s.%s=%d", name, stride, n), func(c *call) {
				*at(of(c)) = n
			},
				ErrStride, says(name+"."+stride, fmt.Sprint(n), "at least 1")})
		}
		all = append(all, misuse{name + "." + stride + " overflows", func(c *call) {
			*at(of(c)) = math.MaxInt
		},
			ErrStride, says(name+"."+stride, fmt.Sprint(math.MaxInt))})
		all = append(all, misuse{name + "." + stride + " beyond the data", func(c *call) {
			*at(of(c)) = 1000
		},
			ErrLength, says("len("+name+".Data)", "1000")})
	}
	all = append(all,
		misuse{name + " one short", func(c *call) { v := of(c); v.Data = v.Data[:len(v.Data)-1] },
			ErrLength, says("len("+name+".Data)", "at least")},
		misuse{name + " without data", func(c *call) { of(c).Data = nil },
			ErrLength, says("len("+name+".Data)", "0", "at least")})
	return all
}

func TestMisuse(t *testing.T) {
	if err := newCall().attend(); err != nil {
		t.Fatalf("the call that the cases spoil is invalid: %v", err)
	}
	for _, m := range append(spoiledViews(), misuses...) {
		t.Run(m.name, func(t *testing.T) {
			c := newCall()
			m.spoil(c)
			untouched := c.outputs()
			m.judge(t, c.attend())
			for name, was := range untouched {
				if i := firstDifference(was.now, was.before); i >= 0 {
					t.Errorf("%s: element %d was written", name, i)
				}
			}
		})
	}
}

func (m *misuse) judge(t *testing.T, err error) {
	t.Helper()
	if mustFail(t, m.name, err, m.kind); err == nil {
		return
	}
	text := strings.TrimPrefix(err.Error(), m.kind.Error())
	for _, part := range m.mentions {
		if !strings.Contains(text, part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

type snapshot struct{ now, before []float32 }

// outputs remembers what is in all memory that a call might write to.
func (c *call) outputs() map[string]snapshot {
	all := map[string]snapshot{}
	for name, x := range map[string][]float32{"dst": c.dst.Data, "Weights": c.opt.Weights.Data,
		"LSE": c.opt.LSE} {
		all[name] = snapshot{x, append([]float32(nil), x...)}
	}
	return all
}

// Buffers on a stack are seen to overlap wherever in the checks the stack grows, which moves them.
func TestOverlapOnStack(t *testing.T) {
	for depth := range 600 { // in steps of some 30 bytes
		errs := make(chan [2]error)
		go func() { errs <- overlapAt(depth) }()
		for i, err := range <-errs {
			mustFail(t, fmt.Sprintf("depth %d, call %d", depth, i), err, ErrOverlap)
		}
	}
}

// overlapAt makes two calls whose outputs overlap, under a number of calls of itself.
//
//go:noinline
func overlapAt(depth int) [2]error {
	if depth > 0 {
		return overlapAt(depth - 1)
	}
	var x [256]float32
	a, b := BHLD(x[:64], 1, 1, 8, 8), BHLD(x[64:128], 1, 1, 8, 8)
	return [2]error{
		MatMul(BHLD(x[100:], 1, 1, 8, 8), a, b),
		Attend(BHLD(x[128:192], 1, 1, 8, 8), a, b, b, &Options{LSE: x[191:199]}),
	}
}

// Random numbers in every field of a call give an error or a result, never a panic.
func TestGarbageDoesNotPanic(t *testing.T) {
	r := random("garbage")
	numbers := []int{0, 1, 2, 3, 5, 7, 8, -1, 64, 100, 1 << 20, 1 << 28, 1<<28 + 1,
		math.MaxInt>>32 + 1, math.MaxInt>>1 + 1, math.MaxInt, math.MinInt}
	valid := 0
	for range budget(40000) {
		c := newCall()
		if r.IntN(8) == 0 { // no keys
			for _, n := range []*int{&c.k.L, &c.v.L, &c.opt.Mask.D, &c.opt.Bias.D, &c.opt.Weights.D} {
				*n = 0
			}
			clear(c.opt.KeyLens)
		}
		garble := func(n ...*int) {
			for _, at := range n {
				if r.IntN(30) == 0 {
					*at = numbers[r.IntN(len(numbers))]
				}
			}
		}
		for _, v := range []*Tensor{&c.dst, &c.q, &c.k, &c.v, &c.opt.Bias, &c.opt.Weights} {
			garble(&v.B, &v.H, &v.L, &v.D, &v.SB, &v.SH, &v.SL)
		}
		mask := &c.opt.Mask
		garble(&mask.B, &mask.H, &mask.L, &mask.D, &mask.SB, &mask.SH, &mask.SL)
		garble(&c.opt.Offset, &c.opt.QueryLens[0], &c.opt.KeyLens[1], (*int)(&c.opt.Causal))
		if r.IntN(2) == 0 {
			c.opt.Window = Window{numbers[r.IntN(len(numbers))], numbers[r.IntN(len(numbers))]}
		}
		if r.IntN(2) == 0 {
			c.opt.Mask = Mask{}
		}
		if r.IntN(2) == 0 {
			c.opt.Bias = Tensor{}
		}
		if r.IntN(2) == 0 {
			c.opt.Weights = Tensor{}
		}
		if c.attend() == nil {
			valid++
		}
	}
	if valid == 0 {
		t.Error("no call was valid: the test has tried nothing but refusals")
	}
}

// Where an int has 32 bits, rows may be longer than what can be packed.
func TestRowsTooLong(t *testing.T) {
	row := tensor(random("long row"), normal, 1, 1, 1, 1<<20).Data
	view := BHLD(row, 1, 1, 1, len(row))
	dst := BHLD(make([]float32, len(row)), 1, 1, 1, len(row))
	err := Attend(dst, view, view, view, nil)
	if math.MaxInt > math.MaxInt32 {
		must(t, err)
		mustEqualBits(t, "one key", dst.Data, row)
	} else {
		mustFail(t, "D + Dv = 2²¹", err, ErrUnsupported)
	}
	quarter := BHLD(row, 1, 1, 1, len(row)/4)
	must(t, Attend(BHLD(dst.Data, 1, 1, 1, quarter.D), quarter, quarter, quarter, nil))
}

// Q, K, V and the output may be columns of the same rows.
func TestColumnsOfOneBuffer(t *testing.T) {
	const count, heads, width = 9, 2, 4
	wide := tensor(random("columns"), normal, 1, 1, count, 4*heads*width)
	column := func(n int) Tensor {
		return Rows(wide.Data[n*heads*width:], 1, count, heads, width, wide.SL)
	}
	apart := func(n int) Tensor { return pick(column(n), []int{0}, upTo(heads), 0, count) }
	want := apart(3)
	if err := Attend(want, apart(0), apart(1), apart(2), nil); err != nil {
		t.Fatal(err)
	}
	if err := Attend(column(3), column(0), column(1), column(2), nil); err != nil {
		t.Fatal(err)
	}
	if i := firstDifference(apart(3).Data, want.Data); i >= 0 {
		t.Errorf("element %d differs from the call on separate buffers", i)
	}
	overlapping := column(3)
	overlapping.Data = wide.Data[3*heads*width-1:]
	if err := Attend(overlapping, column(0), column(1), column(2), nil); !errors.Is(err, ErrOverlap) {
		t.Errorf("columns that overlap by one element: error is %v, want %v", err, ErrOverlap)
	}
}

func TestPrimitivesPanicOnLengths(t *testing.T) {
	short, long := make([]float32, 3), make([]float32, 4)
	for name, f := range map[string]func(){
		"Dot":     func() { Dot(short, long) },
		"Exp":     func() { Exp(short, long) },
		"ExpSum":  func() { ExpSum(long, short, 0) },
		"Softmax": func() { Softmax(long, short) },
		"Widen":   func() { Widen(long, make([]uint16, 3), F16) },
		"Narrow":  func() { Narrow(make([]uint16, 3), long, F16) },
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				for _, part := range []string{name, "3", "4"} {
					if !strings.Contains(text, part) {
						t.Errorf("%s: panic %q does not mention %q", name, text, part)
					}
				}
			}()
			f()
		}()
	}
}

// Calls that the quick validation accepts pass the thorough one, and give the same plan.
func TestQuickValidIsValid(t *testing.T) {
	r := random(t.Name())
	buffer := make([]float32, 4096)
	view := func(b, h, l, d int) Tensor {
		v := BHLD(buffer[r.IntN(len(buffer)):], b, h, l, d)
		if r.IntN(2) == 0 {
			v = BLHD(v.Data, b, l, h, d)
		}
		for _, stride := range []*int{&v.SB, &v.SH, &v.SL} {
			switch r.IntN(12) {
			case 0:
				*stride = r.IntN(300) - 5
			case 1:
				*stride += r.IntN(3) - 1
			}
		}
		return v
	}
	var accepted int
	for range 200_000 {
		b, kvh, h, lq, lk, d, dv := 1+r.IntN(3), 1+r.IntN(2), 1+r.IntN(4), 1+r.IntN(4), 1+r.IntN(4),
			1+r.IntN(9), 1+r.IntN(9)
		wrong := func(n int) int { // now and then
			if r.IntN(40) == 0 {
				return r.IntN(5)
			}
			return n
		}
		q, dst := view(b, h, lq, d), view(b, wrong(h), wrong(lq), wrong(dv))
		k, v := view(wrong(b), kvh, lk, wrong(d)), view(b, wrong(kvh), wrong(lk), dv)
		p := newPlan(dst, q, k, v, nil)
		p.kvHeads, p.lk, p.d, p.dv = k.H, k.L, k.D, v.D
		if !p.quickValid(k.B) {
			continue
		}
		accepted++
		thorough := newPlan(dst, q, k, v, nil)
		err := thorough.initKeys()
		if err == nil {
			err = thorough.initCall(k.B, nil)
		}
		if err != nil {
			t.Fatalf("dst %+v, q %+v, k %+v, v %+v: %v", dst, q, k, v, err)
		}
		if err := p.init(nil); err != nil || p.batch != thorough.batch || p.heads != thorough.heads ||
			p.kvHeads != thorough.kvHeads ||
			p.group != thorough.group || p.lq != thorough.lq || p.lk != thorough.lk || p.d != thorough.d ||
			p.dv != thorough.dv ||
			p.scoreScale != thorough.scoreScale || p.left != thorough.left || p.right != thorough.right {
			t.Fatalf("error %v, plan %+v, want %+v", err, p, thorough)
		}
	}
	if accepted < 1000 && math.MaxInt > math.MaxInt32 { // with 32 bits none is accepted
		t.Errorf("only %d calls were accepted quickly", accepted)
	}
}

// The quick way to validate a call knows every field of Options: for fields that it accepts it
// makes the same plan as the thorough way, and with any other field it is not used. A new field
// needs a value here.
func TestQuickValidKnowsAllOptions(t *testing.T) {
	values := map[string]any{
		"Scale": float32(0.3), "Causal": TopLeft, "Offset": 2, "Window": Window{2, 3},
		"Softcap": float32(5), "Mask": Mask{B: 1}, "Blocks": Mask{B: 1}, "Bias": Tensor{B: 1},
		"Distance": Distance{Buckets: []int32{0}},
		"Slopes":   []float32{1}, "Sinks": []float32{1}, "QueryLens": []int{1}, "KeyLens": []int{1},
		"Documents": []int{1}, "KeyDocuments": []int{1}, "LSE": []float32{1}, "Tree": []int{-1, 0},
		"Keys":    View[int32]{B: 1},
		"Weights": Tensor{B: 1}, "Integers": true, "BFloat16": true,
	}
	dst, q, k, v := zeros(1, 1, 2, 8), zeros(1, 1, 2, 8), zeros(1, 1, 3, 8), zeros(1, 1, 3, 8)
	options := reflect.TypeFor[Options]()
	for i := range options.NumField() {
		field := options.Field(i)
		value, known := values[field.Name]
		if !known {
			t.Errorf("Options.%s has no value in this test", field.Name)
			continue
		}
		var opt Options
		reflect.ValueOf(&opt).Elem().Field(i).Set(reflect.ValueOf(value))
		if !opt.onlyScalars() {
			continue
		}
		if field.Type.Kind() == reflect.Slice {
			t.Errorf("Options.%s refers to memory, and the quick way takes it for a number", field.Name)
		}
		quick, thorough := newPlan(dst, q, k, v, &opt), newPlan(dst, q, k, v, &opt)
		must(t, quick.init(&opt))
		must(t, thorough.initKeys())
		must(t, thorough.initCall(1, &opt))
		plain := newPlan(dst, q, k, v, nil)
		must(t, plain.init(nil))
		if !reflect.DeepEqual(quick, thorough) {
			t.Errorf("Options.%s: the quick plan is %+v, want %+v", field.Name, quick, thorough)
		}
		if reflect.DeepEqual(quick, plain) {
			t.Errorf("Options.%s makes no difference to the plan", field.Name)
		}
	}
}

// Texts name the argument, what came and what is wanted, and no alternative twice.
func TestErrorTexts(t *testing.T) {
	q, one := zeros(1, 4, 3, 4), zeros(1, 1, 3, 4)
	attend := func(o Options) error { return Attend(zeros(1, 4, 3, 4), q, one, one, &o) }
	_, err := new(State).MarshalBinary()
	mustFail(t, "zero", err, ErrShape)
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	data, err := s.MarshalBinary()
	must(t, err)
	form := func(field int, to uint32) error {
		x := slices.Clone(data)
		binary.LittleEndian.PutUint32(x[len(stateMagic)+4*field:], to)
		return s.UnmarshalBinary(x)
	}
	for _, c := range []struct {
		err, kind error
		text      string
	}{
		{attend(Options{Mask: Mask{Data: make([]bool, 18), B: 1, H: 2, L: 3, D: 3}}), ErrShape,
			"Mask is [1 2 3 3], want [1, 4 or 1, 3 or 1, 3]; a stride of attn.Broadcast repeats " +
				"elements, too"},
		{attend(Options{Blocks: Mask{Data: make([]bool, 2), B: 1, H: 2, L: 1, D: 1}}), ErrShape,
			"Blocks is [1 2 1 1], want [1, 4 or 1, 1, 1]"},
		{attend(Options{Weights: zeros(1, 2, 3, 3)}), ErrShape,
			"Weights is [1 2 3 3], want [1 4 3 3]"},
		{attend(Options{Keys: View[int32]{Data: make([]int32, 6), B: 1, H: 2, L: 3, D: 1}}), ErrShape,
			"Keys is [1 2 3 1], want [1, 4 or 1, 3, …]"},
		{attend(Options{Softcap: 1e-45, Scale: 1e10}), ErrOption,
			"Softcap is 1e-45 with a Scale of 1e+10, want more: Scale/Softcap overflows"},
		{attend(Options{Scale: -3e38}), ErrOption,
			"Scale is -3e+38, want a magnitude of at most 2.3586574e+38: times log₂e it overflows"},
		{MatMul(zeros(1, 4, 3, 2), q, zeros(2, 4, 4, 2)), ErrShape,
			"b is [2 4 …], want [1, 4 or 1, …] as a"},
		{MatMul(zeros(1, 1, 3, 2), one, zeros(1, 4, 4, 2)), ErrShape,
			"b is [1 4 …], want [1, 1, …] as a"},
		{form(0, maxLength+1), ErrFormat, "the data's Batch is 268435457, want at most 268435456"},
		{form(6, maxLength+1), ErrFormat,
			"the data's number of nodes is 268435457, want at most 268435456"},
		{form(3, 0), ErrFormat, "the data's StateConfig.ValueDim is 0, want 1 to 268435456"},
	} {
		mustFail(t, c.text, c.err, c.kind, c.text)
	}
}
