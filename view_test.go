package attn

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// mustMention makes sure that an error says all parts.
func mustMention(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("the error %v does not mention %q", err, part)
		}
	}
}

// rowsIn are the rows of a view, found by Row.
func rowsIn(v Tensor) (rows [][]float32) {
	for b := range v.B {
		for h := range v.H {
			for i := range v.L {
				rows = append(rows, v.Row(b, h, i))
			}
		}
	}
	return rows
}

// Three strides of 0 are the strides of BHLD, everywhere; a view with some strides has all of them.
func TestViewWithoutStridesIsContiguous(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(100) {
			p := randomProblem(r, normal)
			want := p.solve(t, Attend)
			bare := func(x Tensor) Tensor { x.SB, x.SH, x.SL = 0, 0, 0; return x }
			q := *p
			q.q, q.k, q.v, q.opt.Bias = bare(p.q), bare(p.k), bare(p.v), bare(p.opt.Bias)
			q.opt.Mask.SB, q.opt.Mask.SH, q.opt.Mask.SL = 0, 0, 0
			p.same(t, "views without strides", q.solve(t, func(dst, q, k, v Tensor, opt *Options) error {
				o := *opt
				o.Weights = bare(o.Weights)
				return Attend(bare(dst), q, k, v, &o)
			}), want)
		}
	})
}

// A stride that was forgotten is an error that names it, whichever it is and wherever the view
// goes; nothing repeats unless that is said.
func TestForgottenStrides(t *testing.T) {
	x := func() Tensor { return zeros(2, 3, 4, 5) }
	out := func() Tensor { return BHLD(nans(2*3*4*5), 2, 3, 4, 5) }
	cache, err := NewCache(CacheConfig{Batch: 2, KVHeads: 3, HeadDim: 5, ValueDim: 5, Capacity: 8})
	must(t, err)
	state, err := NewState(StateConfig{2, 3, 4, 5})
	must(t, err)
	for i, stride := range []string{"SB", "SH", "SL"} {
		forget := func(v Tensor) Tensor {
			*[]*int{&v.SB, &v.SH, &v.SL}[i] = 0
			return v
		}
		dst := out()
		for name, err := range map[string]error{
			"q":    Attend(dst, forget(x()), x(), x(), nil),
			"k":    Attend(dst, x(), forget(x()), x(), nil),
			"v":    Attend(dst, x(), x(), forget(x()), nil),
			"dst":  Attend(forget(dst), x(), x(), x(), nil),
			"Bias": Attend(dst, x(), x(), x(), &Options{Bias: forget(zeros(2, 3, 4, 4))}),
			"a":    MatMul(dst, forget(x()), zeros(1, 1, 5, 5)),
			"w":    func() error { _, err := PackMatrix(forget(x()), MatrixConfig{}); return err }(),
		} {
			mustFail(t, name, err, ErrShape)
			mustMention(t, err, name+"."+stride+" is 0", "Broadcast")
		}
		mustFail(t, "cache", cache.Append(forget(x()), x()), ErrShape)
		mustFail(t, "state", state.Update(x(), x(), forget(x()), nil), ErrShape)
		mustBeUntouched(t, dst)
	}
}

// A buffer that is too short for a view without strides says which were assumed.
func TestShortBufferSaysWhatWasAssumed(t *testing.T) {
	short := Tensor{Data: make([]float32, 119), B: 2, H: 3, L: 4, D: 5}
	dst, x := BHLD(nans(120), 2, 3, 4, 5), zeros(2, 3, 4, 5)
	err := Attend(dst, short, x, x, nil)
	mustFail(t, "q", err, ErrLength)
	mustMention(t, err, "len(q.Data) is 119", "2·3·4·5", "contiguous")
	huge := Tensor{Data: []float32{1}, B: maxLength, H: maxLength, L: maxLength, D: maxLength}
	mustFail(t, "huge", Attend(dst, huge, x, x, nil), ErrLength)
	mustBeUntouched(t, dst)
}

// Broadcast repeats inputs, and is an error in outputs.
func TestBroadcastIsForInputs(t *testing.T) {
	x := zeros(1, 2, 3, 4)
	for i := range 3 {
		dst, weights := zeros(2, 2, 3, 4), zeros(2, 2, 3, 3)
		q := BHLD(x.Data, 2, 2, 3, 4)
		q.SB = Broadcast
		must(t, Attend(dst, q, q, q, &Options{Weights: weights}))
		*[]*int{&weights.SB, &weights.SH, &weights.SL}[i] = Broadcast
		err := Attend(dst, q, q, q, &Options{Weights: weights})
		mustFail(t, "Weights", err, ErrStride)
		mustMention(t, err, "Weights", "Broadcast")
		*[]*int{&dst.SB, &dst.SH, &dst.SL}[i] = Broadcast
		err = Attend(dst, q, q, q, nil)
		mustFail(t, "dst", err, ErrStride)
		mustMention(t, err, "dst", "Broadcast")
	}
}

// Rows that are closer together than their heads are wide are an error, in inputs and outputs and
// in parts of them, and name the pitch.
func TestRowsOfTooShortPitch(t *testing.T) {
	for _, pitch := range []int{7, 1, 0, -1, -9} {
		for _, l := range []int{1, 3} {
			narrow, x := Rows(make([]float32, 100), 1, l, 2, 4, pitch), zeros(1, 2, l, 4)
			dst := BHLD(nans(2*l*4), 1, 2, l, 4)
			for name, err := range map[string]error{
				"q":   Attend(dst, narrow, x, x, nil),
				"k":   Attend(dst, x, narrow, x, nil),
				"v":   Attend(dst, x, x, narrow.Slice(0, l), nil),
				"dst": Attend(narrow.Heads(0, 2), x, x, x, nil),
				"a":   MatMul(dst, narrow, zeros(1, 1, 4, 4)),
				"w":   func() error { _, err := PackMatrix(narrow, MatrixConfig{}); return err }(),
			} {
				mustFail(t, name, err, ErrStride, fmt.Sprintf("%s is of Rows with a pitch of %d, want at "+
					"least h·d, the elements of all heads", name, pitch))
			}
			mustBeUntouched(t, dst)
		}
	}
	x := zeros(1, 1, 3, 8)
	x.Data[5] = 1
	if row := Rows(x.Data, 1, 3, 2, 4, 5).Row(0, 0, 1); row[0] != 1 {
		t.Errorf("the row at element 5 begins with %v, want 1", row[0])
	}
}

// Slice and Heads are the rows that they say, of any layout, and their strides are explicit.
func TestSlicesOfViews(t *testing.T) {
	const b, h, l, d = 2, 3, 4, 5
	all := make([]float32, b*h*l*d+100)
	for i := range all {
		all[i] = float32(i)
	}
	for name, v := range map[string]Tensor{
		"BHLD": BHLD(all, b, h, l, d), "BLHD": BLHD(all, b, l, h, d),
		"Rows": Rows(all, b, l, h, d, h*d+3), "bare": {Data: all, B: b, H: h, L: l, D: d},
		"repeats": {Data: all, B: b, H: h, L: l, D: d, SB: Broadcast, SH: Broadcast, SL: d},
		"same":    repeated(all, b, h, l, d),
	} {
		sb, sh, sl := v.Strides()
		for _, n := range [][2]int{{0, 0}, {0, 1}, {1, 3}, {2, 2}, {0, 3}} {
			positions, heads := v.Slice(n[0], n[1]), v.Heads(n[0], n[1])
			if positions.L != n[1]-n[0] || heads.H != n[1]-n[0] {
				t.Fatalf("%s: %v gives %d positions, %d heads", name, n, positions.L, heads.H)
			}
			for at, x := range []Tensor{positions, heads} {
				if a, b, c := x.Strides(); !x.empty() && (a != sb || b != sh || c != sl) {
					t.Errorf("%s: strides %d %d %d become %d %d %d", name, sb, sh, sl, a, b, c)
				}
				if (x.SB == 0 || x.SH == 0 || x.SL == 0) && !x.empty() {
					t.Errorf("%s: strides %d %d %d are not explicit", name, x.SB, x.SH, x.SL)
				}
				for i := range b {
					for j := range x.H {
						for k := range x.L {
							from := [2]int{j, k}
							from[1-at] += n[0]
							want := v.Row(i, from[0], from[1])
							if got := x.Row(i, j, k); &got[0] != &want[0] || len(got) != d || cap(got) != d {
								t.Errorf("%s: row %d %d %d of %v is another one", name, i, j, k, n)
							}
						}
					}
				}
			}
		}
	}
	// the last row of a pitch may end with its last head
	v := Rows(all[:3*20+15], 1, 4, 3, 5, 20)
	if x := v.Slice(4, 4); !x.empty() || len(rowsIn(v.Slice(3, 4))) != 3 {
		t.Errorf("positions 3 and 4 of 4 are %v", x)
	}
	// slices of an empty view are empty
	if x := (Tensor{B: 1, H: 0, L: 3, D: 4}).Slice(1, 2); !x.empty() {
		t.Errorf("a slice of nothing is %v", x)
	}
}

// What is out of range panics, as slices do.
func TestViewsPanicOutOfRange(t *testing.T) {
	v := zeros(2, 3, 4, 5)
	for name, f := range map[string]func(){
		"Slice(-1, 1)":   func() { v.Slice(-1, 1) },
		"Slice(3, 2)":    func() { v.Slice(3, 2) },
		"Slice(0, 5)":    func() { v.Slice(0, 5) },
		"Heads(0, 4)":    func() { v.Heads(0, 4) },
		"Heads(1, 0)":    func() { v.Heads(1, 0) },
		"Row(2, 0, 0)":   func() { v.Row(2, 0, 0) },
		"Row(0, -1, 0)":  func() { v.Row(0, -1, 0) },
		"Row(0, 0, 4)":   func() { v.Row(0, 0, 4) },
		"runtime error:": func() { Tensor{Data: v.Data[:9], B: 1, H: 1, L: 2, D: 5}.Row(0, 0, 1) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, name) {
					t.Errorf("%s: the panic is %q", name, text)
				}
			}()
			f()
		}()
	}
}

// Dimensions of 1, and views without elements, allow any strides; the zero View is no argument.
func TestStridesThatDoNotMatter(t *testing.T) {
	odd := []int{-1, -7, 0, 1, math.MinInt, math.MaxInt}
	want := slices.Clone(zeros(1, 1, 1, 3).Data)
	for _, stride := range odd {
		dst := Tensor{Data: nans(3), B: 1, H: 1, L: 1, D: 3, SB: stride, SH: stride, SL: stride}
		one := dst
		one.Data = make([]float32, 3)
		must(t, Attend(dst, one, one, one, nil))
		mustEqualBits(t, fmt.Sprint("strides of ", stride), dst.Data, want)
		for _, dims := range [][3]int{{0, 1, 2}, {1, 0, 2}, {1, 2, 0}} {
			none := Tensor{B: dims[0], H: dims[1], L: dims[2], D: 3, SB: stride, SH: stride, SL: stride}
			must(t, Attend(none, none, none, none, nil))
		}
	}
	x := zeros(1, 1, 2, 3)
	for name, opt := range map[string]Options{
		"Mask":    {Mask: Mask{B: 1, H: 1, L: 2, D: 2}},
		"Bias":    {Bias: Tensor{B: 1, H: 1, L: 2, D: 2}},
		"Weights": {Weights: Tensor{B: 1, H: 1, L: 2, D: 2}},
	} {
		mustFail(t, name+" without Data", Attend(zeros(1, 1, 2, 3), x, x, x, &opt), ErrLength)
	}
	err := Attend(zeros(1, 1, 2, 3), x, x, x, &Options{Mask: Mask{Data: []bool{}}})
	if !errors.Is(err, ErrShape) {
		t.Errorf("a Mask with Data and no dimensions: error is %v, want ErrShape", err)
	}
}

func TestCausalString(t *testing.T) {
	got := fmt.Sprint(Full, TopLeft, BottomRight, Causal(3), Causal(-1))
	if want := "Full TopLeft BottomRight Causal(3) Causal(-1)"; got != want {
		t.Errorf("the names are %q, want %q", got, want)
	}
}
