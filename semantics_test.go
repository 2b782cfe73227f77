package attn

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Conventions in which attention libraries differ, in numbers small enough to
// check by hand. docs/semantics.md names these tests.

var nan = nan32()

// scores is a call of one head in which query i has score s[i][j] with key j
// before any option: queries are unit vectors, keys hold the scores, scale 1.
// Value j is the unit vector j, so the output is the weights.
func scores(s ...[]float32) (q, k, v Tensor) {
	lq, lk := len(s), len(s[0])
	q, k, v = zeros(1, 1, lq, lq), zeros(1, 1, lk, lq), zeros(1, 1, lk, lk)
	for i := range lq {
		q.row(0, 0, i)[i] = 1
	}
	for j := range lk {
		v.row(0, 0, j)[j] = 1
		for i := range lq {
			k.row(0, 0, j)[i] = s[i][j]
		}
	}
	return q, k, v
}

// attend returns the output and LSE of a call; Scale is 1 unless given.
func attend(t *testing.T, q, k, v Tensor, opt Options) (o Tensor, lse []float32) {
	t.Helper()
	if opt.Scale == 0 {
		opt.Scale = 1
	}
	o = zeros(q.B, q.H, q.L, v.D)
	opt.LSE = make([]float32, q.B*q.H*q.L)
	fillWith(o.Data, nan)
	fillWith(opt.LSE, nan)
	if err := Attend(o, q, k, v, &opt); err != nil {
		t.Fatal(err)
	}
	return o, opt.LSE
}

// closeTo fails the test unless got is want to seven digits, and NaN or infinite
// where want is.
func closeTo(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i, e := range want {
		same := got[i] == e || got[i] != got[i] && e != e
		if e-e == 0 {
			same = math.Abs(float64(got[i]-e)) <= 5e-7*max(1, math.Abs(float64(e)))
		}
		if !same {
			t.Errorf("%s is %v, want %v", what, got, want)
			return
		}
	}
}

// visible fails the test unless queries see the keys that are marked by 1.
func visible(t *testing.T, opt Options, want ...string) {
	t.Helper()
	rows := make([][]float32, len(want))
	for i := range rows {
		rows[i] = make([]float32, len(want[0]))
	}
	q, k, v := scores(rows...)
	o, _ := attend(t, q, k, v, opt)
	for i, w := range want {
		var got strings.Builder
		for _, e := range o.row(0, 0, i) {
			switch {
			case e == 0:
				got.WriteByte('0')
			case e > 0:
				got.WriteByte('1')
			default:
				fmt.Fprintf(&got, "(%v)", e)
			}
		}
		if got.String() != w {
			t.Errorf("Causal %v, Offset %d, Window %v, QueryLens %v, KeyLens %v: query %d sees %s, want %s",
				opt.Causal, opt.Offset, opt.Window, opt.QueryLens, opt.KeyLens, i, &got, w)
		}
	}
}

// With fewer queries than keys, or more, the three alignments differ.
func TestConventionCausalAlignment(t *testing.T) {
	forEach(t, func(t *testing.T) {
		visible(t, Options{}, "1111", "1111")
		visible(t, Options{Causal: TopLeft}, "1000", "1100")
		visible(t, Options{Causal: TopLeft, Offset: 1}, "1100", "1110")
		visible(t, Options{Causal: BottomRight}, "1110", "1111")
		visible(t, Options{Causal: TopLeft}, "10", "11", "11", "11")
		visible(t, Options{Causal: BottomRight}, "00", "00", "10", "11")
		visible(t, Options{Causal: BottomRight, QueryLens: []int{2}, KeyLens: []int{2}}, "1000", "1100",
			"0000")
		visible(t, Options{Causal: TopLeft, Offset: -1}, "0000", "1000")
	})
}

// Left and Right count keys, the query's own among them; 0 is unbounded.
func TestConventionWindowWidth(t *testing.T) {
	forEach(t, func(t *testing.T) {
		visible(t, Options{Window: Window{}}, "1111", "1111", "1111", "1111")
		visible(t, Options{Window: Window{1, 1}}, "1000", "0100", "0010", "0001")
		visible(t, Options{Window: Window{Left: 2, Right: 1}}, "1000", "1100", "0110", "0011")
		visible(t, Options{Window: Window{2, 2}}, "1100", "1110", "0111", "0011")
		visible(t, Options{Window: Window{Right: 2}}, "1100", "1110", "1111", "1111")
		visible(t, Options{Window: Window{Left: 2}}, "1111", "1111", "0111", "0011")
		visible(t, Options{Window: Window{Left: math.MaxInt, Right: math.MaxInt}}, "1111", "1111")
		// The window is about positions, so it moves with the alignment, also without a causal mask.
		visible(t, Options{Window: Window{Left: 2, Right: 1}, Causal: BottomRight}, "0110", "0011")
		visible(t, Options{Window: Window{2, 2}, Offset: 2}, "0111", "0011")
		visible(t, Options{Window: Window{2, 2}, Causal: TopLeft}, "1000", "1100")
	})
}

// A row that sees no key is zero, with LSE −Inf; a sink does not change that.
func TestConventionFullyMaskedRows(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, sinks := range [][]float32{nil, {2}} {
			q, k, v := scores([]float32{3, 4}, []float32{0, 0})
			mask := BHLD([]bool{false, false, true, true}, 1, 1, 2, 2)
			o, lse := attend(t, q, k, v, Options{Mask: mask, Sinks: sinks})
			closeTo(t, "masked row", o.row(0, 0, 0), []float32{0, 0})
			closeTo(t, "LSE", lse, []float32{negInf, 0.6931472})
		}
	})
}

// 0 means 1/√D, with D the dimension of queries and keys, not of values.
func TestConventionDefaultScale(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k := BHLD([]float32{2, 1, 1, 2}, 1, 1, 1, 4), BHLD([]float32{1, 1, 1, 1}, 1, 1, 1, 4)
		for scale, want := range map[float32]float32{0: 3, 1: 6, -1: -6} {
			lse := make([]float32, 1)
			if err := Attend(zeros(1, 1, 1, 9), q, k, zeros(1, 1, 1, 9),
				&Options{Scale: scale, LSE: lse}); err != nil {
				t.Fatal(err)
			}
			closeTo(t, fmt.Sprintf("score with Scale %v", scale), lse, []float32{want})
		}
	})
}

// The softcap applies to the scaled score; bias and ALiBi are added to its result.
func TestConventionSoftcapBeforeBias(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k, v := scores([]float32{4})
		bias := BHLD([]float32{5}, 1, 1, 1, 1)
		_, lse := attend(t, q, k, v, Options{Scale: 0.5, Softcap: 1})
		closeTo(t, "tanh(0.5·4)", lse, []float32{0.9640276})
		_, lse = attend(t, q, k, v, Options{Scale: 0.5, Softcap: 4})
		closeTo(t, "4·tanh(2/4)", lse, []float32{1.8484686})
		_, lse = attend(t, q, k, v, Options{Scale: 0.5, Softcap: 1, Bias: bias})
		closeTo(t, "tanh(2) + 5", lse, []float32{5.9640276})
		_, lse = attend(t, q, k, v, Options{Scale: 0.5, Softcap: 1, Slopes: []float32{5}, Offset: -1})
		closeTo(t, "tanh(2) + 5·1", lse, []float32{5.9640276})
	})
}

// A sink is not capped, has its share of the weights, and is not in the LSE.
func TestConventionSinkOutsideSoftcapAndLSE(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k, v := scores([]float32{0, 0})
		weights := zeros(1, 1, 1, 2)
		o, lse := attend(t, q, k, v, Options{Softcap: 1, Sinks: []float32{3}, Weights: weights})
		share := float32(1 / (2 + math.Exp(3)))
		closeTo(t, "output", o.Data, []float32{share, share})
		closeTo(t, "Weights", weights.Data, []float32{share, share})
		closeTo(t, "LSE", lse, []float32{0.6931472})
	})
}

// LSE is the natural logarithm, of scores after scale, softcap, bias and ALiBi.
func TestConventionLSEIsNaturalLog(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k, v := scores([]float32{0, 0, 0}, []float32{1, 2, 3})
		_, lse := attend(t, q, k, v, Options{})
		closeTo(t, "LSE", lse, []float32{1.0986123, 3.4076059})
		_, lse = attend(t, q, k, v, Options{Scale: 2})
		closeTo(t, "LSE with Scale 2", lse, []float32{1.0986123, 6.1429317})
	})
}

// A bias of −Inf masks: the key does not exist. A large negative number does
// not: a row of nothing else attends to all of it.
func TestConventionMinusInfBiasMasks(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k, v := scores([]float32{0, 0}, []float32{0, 0})
		bias := BHLD([]float32{0, negInf, -1e9, -1e9}, 1, 1, 2, 2)
		o, lse := attend(t, q, k, v, Options{Bias: bias})
		closeTo(t, "output", o.Data, []float32{1, 0, 0.5, 0.5})
		closeTo(t, "LSE", lse, []float32{0, -1e9})

		k.row(0, 0, 1)[0], v.row(0, 0, 1)[1] = nan, nan
		o, _ = attend(t, q, k, v, Options{Bias: bias})
		closeTo(t, "output, the masked key being NaN", o.row(0, 0, 0), []float32{1, 0})
	})
}

// A NaN, or a score of +Inf, that a row sees makes the row NaN. It touches no
// other row, and nothing that a mask, the position or the lengths hide.
func TestConventionNaNStaysInItsRow(t *testing.T) {
	inf := float32(math.Inf(1))
	forEach(t, func(t *testing.T) {
		for _, poison := range []float32{nan, inf} {
			q, k, v := scores([]float32{0, 0}, []float32{0, 0})
			k.row(0, 0, 1)[1] = poison // only query 1 multiplies it by 1, and query 0 does not see it
			o, lse := attend(t, q, k, v, Options{Causal: TopLeft})
			closeTo(t, "output", o.Data, []float32{1, 0, nan, nan})
			closeTo(t, "LSE of query 0", lse[:1], []float32{0})
			if lse[1] == lse[1] && lse[1] != inf {
				t.Errorf("LSE of a row that sees %v is %v, want NaN or +Inf", poison, lse[1])
			}
			o, _ = attend(t, q, k, v, Options{KeyLens: []int{1}})
			closeTo(t, "output with KeyLens 1", o.Data, []float32{1, 0, 1, 0})
		}
	})
}

// Queries from QueryLens on are zero rows with LSE −Inf. Keys from KeyLens on
// do not exist. Each batch entry has its own lengths.
func TestConventionPaddingRows(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k := zeros(2, 1, 2, 1), zeros(2, 1, 2, 1)
		v := BHLD([]float32{1, 3, 5, nan}, 2, 1, 2, 1)
		o, lse := attend(t, q, k, v, Options{QueryLens: []int{1, 2}, KeyLens: []int{2, 1}})
		closeTo(t, "output", o.Data, []float32{2, 0, 5, 5})
		closeTo(t, "LSE", lse, []float32{0.6931472, negInf, 0, 0})
	})
}

// Neighbouring query heads share a key/value head: 0 0 1 1, not 0 1 0 1.
func TestConventionHeadOrder(t *testing.T) {
	forEach(t, func(t *testing.T) {
		o, _ := attend(t, zeros(1, 4, 1, 1), zeros(1, 2, 1, 1), BHLD([]float32{7, 9}, 1, 2, 1, 1),
			Options{})
		closeTo(t, "output by head", o.Data, []float32{7, 7, 9, 9})
	})
}

// True means may attend. A dimension of 1 stands for all batch entries, heads or queries.
func TestConventionMaskBroadcast(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k := zeros(2, 2, 2, 1), zeros(2, 2, 2, 1)
		v := BHLD([]float32{1, 3, 1, 3, 1, 3, 1, 3}, 2, 2, 2, 1)
		for name, c := range map[string]struct {
			mask Mask
			want []float32 // by batch, head, query
		}{
			"all": {BHLD([]bool{true, false, true, true}, 1, 1, 2, 2), []float32{1, 2, 1, 2, 1, 2, 1, 2}},
			"batch": {BHLD([]bool{true, false, true, true, false, true, false, true}, 1, 2, 2, 2),
				[]float32{1, 2, 3, 3, 1, 2, 3, 3}},
			"heads": {BHLD([]bool{true, false, true, true, false, true, false, true}, 2, 1, 2, 2),
				[]float32{1, 2, 1, 2, 3, 3, 3, 3}},
			"queries": {Mask{Data: []bool{true, false, false, true}, B: 2, H: 1, L: 2, D: 2, SB: 2,
				SL: Broadcast},
				[]float32{1, 1, 1, 1, 3, 3, 3, 3}},
			"padding": {BHLD([]bool{true, false, false, true}, 2, 1, 1, 2),
				[]float32{1, 1, 1, 1, 3, 3, 3, 3}},
		} {
			o, _ := attend(t, q, k, v, Options{Mask: c.mask})
			closeTo(t, "output with a mask for "+name, o.Data, c.want)
		}
	})
}

// ALiBi adds slope·(j − i − offset): 0 for the own position, negative before
// it, and positive after it where later keys are visible.
func TestConventionAlibiSign(t *testing.T) {
	forEach(t, func(t *testing.T) {
		q, k, v := scores([]float32{0, 0, 0})
		for offset, want := range map[int][]float32{
			2: {-1, -0.5, 0},
			1: {-0.5, 0, 0.5},
			0: {0, 0.5, 1},
		} {
			bias := BHLD(slices.Clone(want), 1, 1, 1, 3)
			o, lse := attend(t, q, k, v, Options{Slopes: []float32{0.5}, Offset: offset})
			same, sameLSE := attend(t, q, k, v, Options{Bias: bias})
			closeTo(t, fmt.Sprintf("output at Offset %d", offset), o.Data, same.Data)
			closeTo(t, fmt.Sprintf("LSE at Offset %d", offset), lse, sameLSE)
		}
		_, lse := attend(t, q, k, v, Options{Slopes: []float32{0.5}, Offset: 2})
		_, same := attend(t, q, k, v, Options{Slopes: []float32{0.5}, Causal: BottomRight})
		closeTo(t, "LSE with BottomRight", same, lse)
	})
}

// dst must be apart from the inputs; inputs may coincide; columns of the same
// rows are apart.
func TestConventionDstAliasing(t *testing.T) {
	forEach(t, func(t *testing.T) {
		x := BHLD([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
		other := zeros(1, 1, 2, 2)
		for name, c := range map[string][4]Tensor{
			"q": {x, x, other, other}, "k": {x, other, x, other}, "v": {x, other, other, x},
		} {
			err := Attend(c[0], c[1], c[2], c[3], nil)
			if !errors.Is(err, ErrOverlap) || !strings.Contains(err.Error(), "dst overlaps "+name) {
				t.Errorf("dst is %s: %v, want ErrOverlap that says so", name, err)
			}
		}
		if !slices.Equal(x.Data, []float32{1, 2, 3, 4}) {
			t.Errorf("dst is %v after an error, want it untouched", x.Data)
		}
		if err := Attend(other, x, x, x, nil); err != nil {
			t.Errorf("q, k and v are one view: %v", err)
		}
		rows := make([]float32, 2*4) // q, k, v and dst are a column each
		column := func(x int) Tensor {
			return View[float32]{Data: rows[x:], B: 1, H: 1, L: 2, D: 1, SL: 4}
		}
		if err := Attend(column(3), column(0), column(1), column(2), nil); err != nil {
			t.Errorf("dst is a column beside the inputs: %v", err)
		}
	})
}

// docs/semantics.md promises tests by name.
func TestSemanticsNamesTests(t *testing.T) {
	text, err := os.ReadFile("docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(part)
	}
	names := regexp.MustCompile("`((?:Test|Example)\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(names) < 15 {
		t.Fatalf("docs/semantics.md names %d tests, want at least 15", len(names))
	}
	for _, name := range names {
		if !strings.Contains(code.String(), "\nfunc "+name[1]+"(") {
			t.Errorf("docs/semantics.md names %s, which does not exist", name[1])
		}
	}
	tests := regexp.MustCompile(`\nfunc (TestConvention\w+)\(`)
	for _, test := range tests.FindAllStringSubmatch(code.String(), -1) {
		if !strings.Contains(string(text), "`"+test[1]+"`") {
			t.Errorf("docs/semantics.md does not name %s", test[1])
		}
	}
}

// A visible score that overflows to −Inf has weight 0, and 0·NaN is NaN. So the value
// of such a key makes the row NaN, unless the row has seen no score above −Inf
// in the segment up to the end of the key's block: then it is empty so far, and
// no value counts. That is decided for each row by itself, whatever the rows of
// the tile see and however the call is computed.
func TestNaNValueUnderOverflow(t *testing.T) {
	const d, lk, mark = 8, 3*Block + 5, Block + 7
	for i, bad := range []struct {
		name string
		low  [2]int // keys with scores of −Inf, other than the marked one
		nan  bool
	}{
		{"nothing before, nothing in the block", [2]int{0, 2 * Block}, false},
		{"something in the block", [2]int{0, 2*Block - 1}, true},
		{"something before", [2]int{Block, 2 * Block}, true},
	} {
		if testing.Short() && i != 1 {
			continue
		}
		p := newProblem(random(bad.name), normal, shape{1, 2, 2, 2*tuned.TileRows + 5, lk, d, d})
		for i := range p.q.Data {
			p.q.Data[i] = 0 // a neighbour: all scores are 0
		}
		sees := func(h, i int) bool { return (h+i)%3 == 0 }
		for at := range p.q.H * p.q.L {
			if h, i := at/p.q.L, at%p.q.L; sees(h, i) {
				fillWith(p.q.row(0, h, i), 1e30)
			}
		}
		for at := range p.k.H * lk {
			if h, j := at/lk, at%lk; j == mark || j >= bad.low[0] && j < bad.low[1] {
				fillWith(p.k.row(0, h, j), -1e30)
			} else {
				clear(p.k.row(0, h, j))
			}
		}
		for h := range p.v.H {
			fillWith(p.v.row(0, h, mark), nan)
		}
		t.Run(bad.name, func(t *testing.T) { p.nanUnderOverflow(t, mark, bad.nan, sees) })
	}
}

// nanUnderOverflow computes the problem in all ways, and with masks that hide the marked key from
// some neighbours.
func (p *problem) nanUnderOverflow(t *testing.T, mark int, isNaN bool,
	overflows func(h, i int) bool) {
	mask := BHLD(make([]bool, p.q.H*p.q.L*p.k.L), 1, p.q.H, p.q.L, p.k.L)
	for at := range p.q.H * p.q.L {
		h, i := at/p.q.L, at%p.q.L
		row := mask.row(0, h, i)
		for j := range row {
			row[j] = overflows(h, i) || j != mark
		}
	}
	for name, opt := range map[string]Options{"": {}, "masked neighbours, ": {Mask: mask}} {
		q := *p
		q.opt = opt
		for _, way := range ways {
			forEach(t, func(t *testing.T) {
				got := q.solve(t, way.attend)
				for at := range q.q.H * q.q.L {
					h, i := at/q.q.L, at%q.q.L
					if !overflows(h, i) {
						continue
					}
					row := got.o[at*q.v.D:][:q.v.D]
					if (row[0] != row[0]) != isNaN {
						t.Fatalf("%s%s: row (%d, %d) is %v, want NaN: %v", name, way.name, h, i, row, isNaN)
					}
					one := selection{[]int{0}, []int{h}, i, 1}
					if i%16 == 0 {
						part := q.part(one)
						part.same(t, fmt.Sprintf("%s%s, row (%d, %d) alone", name, way.name, h, i),
							part.solve(t, way.attend), one.of(&q, got))
					}
				}
			})
		}
	}
}

// optionSetters set options that fit every call of five queries of two heads and five keys.
var optionSetters = []struct {
	name string
	set  func(o *Options)
}{
	{"Scale", func(o *Options) { o.Scale = 0.3 }},
	{"TopLeft", func(o *Options) { o.Causal = TopLeft }},
	{"BottomRight", func(o *Options) { o.Causal = BottomRight }},
	{"Offset", func(o *Options) { o.Offset = 2 }},
	{"Window", func(o *Options) { o.Window = Window{Left: 3} }},
	{"Softcap", func(o *Options) { o.Softcap = 20 }},
	{"Mask", func(o *Options) { o.Mask = BHLD(slices.Repeat([]bool{true}, 25), 1, 1, 5, 5) }},
	{"Bias", func(o *Options) { o.Bias = zeros(1, 1, 5, 5) }},
	{"Distance", func(o *Options) { o.Distance.Query = zeros(1, 1, 1, 3) }},
	{"Slopes", func(o *Options) { o.Slopes = []float32{0.5, 0.25} }},
	{"Sinks", func(o *Options) { o.Sinks = []float32{1, 2} }},
	{"QueryLens", func(o *Options) { o.QueryLens = []int{5} }},
	{"KeyLens", func(o *Options) { o.KeyLens = []int{5} }},
	{"LSE", func(o *Options) { o.LSE = make([]float32, 10) }},
	{"Integers", func(o *Options) { o.Integers = true }},
	{"BFloat16", func(o *Options) { o.BFloat16 = true }},
	{"Blocks", func(o *Options) { o.Blocks = BHLD([]bool{true}, 1, 1, 1, 1) }},
	{"Documents", func(o *Options) { o.Documents = []int{2, 3} }},
	{"KeyDocuments", func(o *Options) { o.Documents, o.KeyDocuments = []int{2, 3}, []int{3, 2} }},
	{"Tree", func(o *Options) { o.Tree = []int{-1, 0, 0, 1, 1} }},
	{"Keys", func(o *Options) {
		o.Keys = View[int32]{Data: []int32{0, 1, 2, 3, 4}, B: 1, H: 1, L: 5, D: 5, SB: Broadcast,
			SH: Broadcast, SL: Broadcast}
	}},
	{"Weights", func(o *Options) { o.Weights = zeros(1, 2, 5, 5) }},
}

// callsWithOptions returns the calls that have options.
func callsWithOptions(t *testing.T) map[string]func(o *Options) error {
	r := random("options")
	q, k := tensor(r, normal, 1, 2, 5, 8), tensor(r, normal, 1, 1, 5, 8)
	dst := zeros(1, 2, 5, 8)
	caches, sequences := map[bool]*Cache{}, map[bool][]*Sequence{} // for BFloat16, and all others
	for bfloat16, f := range map[bool]Format{true: F32, false: I8} {
		c, err := filledIn(f, k, k)
		must(t, err)
		seq := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 1, Format: f})
		must(t, seq.Append(k, k))
		caches[bfloat16], sequences[bfloat16] = c, []*Sequence{seq}
	}
	pool := threeWorkers()
	cache := func(o *Options) *Cache { return caches[o.BFloat16] }
	seqs := func(o *Options) []*Sequence { return sequences[o.BFloat16] }
	state := func(update func(s *State) error) error {
		s, err := NewState(StateConfig{1, 2, 5, 8})
		must(t, err)
		return update(s)
	}
	five := func(o *Options) *Options { // queries
		o.QueryLens = []int{5}
		return o
	}
	return map[string]func(o *Options) error{
		"Attend":           func(o *Options) error { return Attend(dst, q, k, k, o) },
		"Pool.Attend":      func(o *Options) error { return pool.Attend(dst, q, k, k, o) },
		"Cache.Attend":     func(o *Options) error { return cache(o).Attend(dst, q, o) },
		"Pool.AttendCache": func(o *Options) error { return pool.AttendCache(dst, q, cache(o), o) },
		"AttendSequences":  func(o *Options) error { return AttendSequences(dst, q, seqs(o), five(o)) },
		"Pool.AttendSequences": func(o *Options) error {
			return pool.AttendSequences(dst, q, seqs(o), five(o))
		},
		"State.Update": func(o *Options) error {
			return state(func(s *State) error { return s.Update(q, k, k, o) })
		},
		"Pool.Update": func(o *Options) error {
			return state(func(s *State) error { return pool.Update(s, q, k, k, o) })
		},
		"State.UpdateSequence": func(o *Options) error {
			return state(func(s *State) error { return s.UpdateSequence(q, seqs(o)[0], o) })
		},
		"Pool.UpdateSequence": func(o *Options) error {
			return state(func(s *State) error { return pool.UpdateSequence(s, q, seqs(o)[0], o) })
		},
		"State.UpdateSequences": func(o *Options) error {
			return state(func(s *State) error { return s.UpdateSequences(q, seqs(o), o) })
		},
		"Pool.UpdateSequences": func(o *Options) error {
			return state(func(s *State) error { return pool.UpdateSequences(s, q, seqs(o), o) })
		},
	}
}

// errorKinds are the errors of options by name.
var errorKinds = map[string]error{"ErrOption": ErrOption, "ErrUnsupported": ErrUnsupported}

// refusals is a table of docs/semantics.md below a heading: what names in the first column do not
// go with in the second, and which error says so.
func refusals(t *testing.T, heading string) map[[2]string]error {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("docs", "semantics.md"))
	must(t, err)
	_, rest, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/semantics.md has no %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	names := regexp.MustCompile("`([A-Za-z0-9.]+)`")
	all := map[[2]string]error{}
	for _, line := range strings.Split(rest, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		kind := errorKinds[names.FindStringSubmatch(cells[len(cells)-2])[1]]
		if kind == nil {
			t.Errorf("%q names no error", line)
		}
		for _, a := range names.FindAllStringSubmatch(cells[1], -1) {
			for _, b := range names.FindAllStringSubmatch(cells[2], -1) {
				all[[2]string{a[1], b[1]}] = kind
			}
		}
	}
	return all
}

// The tables of options that do not go together agree with the calls: for every pair of options, in
// every call that accepts both alone.
func TestOptionsThatDoNotGoTogether(t *testing.T) {
	pairs := refusals(t, "### Options that do not go together")
	calls := refusals(t, "### Options that a call does not take")
	covered := reflect.ValueOf(&Options{}).Elem()
	for _, a := range optionSetters {
		a.set(covered.Addr().Interface().(*Options))
	}
	for i := range covered.NumField() {
		if covered.Field(i).IsZero() {
			t.Errorf("no setter sets %s", covered.Type().Field(i).Name)
		}
	}
	unused := map[[2]string]bool{}
	for pair := range pairs {
		unused[pair] = true
	}
	for pair := range calls {
		unused[pair] = true
	}
	for name, run := range callsWithOptions(t) {
		alone := func(option string) error { return calls[[2]string{name, option}] }
		for i, a := range optionSetters {
			var o Options
			a.set(&o)
			mustBeAsDocumented(t, name+" with "+a.name, run(&o), alone(a.name))
			delete(unused, [2]string{name, a.name})
			for _, b := range optionSetters[i+1:] {
				if alone(a.name) != nil || alone(b.name) != nil || a.name == "TopLeft" &&
					b.name == "BottomRight" || strings.HasSuffix(name, "AttendSequences") &&
					(a.name == "QueryLens" || b.name == "QueryLens") { // which it always has
					continue
				}
				var o Options
				a.set(&o)
				b.set(&o)
				want := cmp.Or(pairs[[2]string{a.name, b.name}], pairs[[2]string{b.name, a.name}])
				mustBeAsDocumented(t, name+" with "+a.name+" and "+b.name, run(&o), want)
				delete(unused, [2]string{a.name, b.name})
				delete(unused, [2]string{b.name, a.name})
			}
		}
	}
	for pair := range unused {
		t.Errorf("a table has %v, which no call knows", pair)
	}
}

// mustBeAsDocumented makes sure that a call has the error that a table says, or none.
func mustBeAsDocumented(t *testing.T, what string, err, want error) {
	t.Helper()
	switch {
	case want != nil:
		mustFail(t, what, err, want)
	case err != nil:
		t.Errorf("%s: error is %v, and no table says so", what, err)
	}
}
