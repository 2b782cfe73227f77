package attn

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// What a cache of fewer bits does to outputs. The tables of docs/low-precision.md are what this
// test prints:
//
//	go test -run TestLowPrecisionErrors -v .

// outliers says what is done to one in 32 channels of normal keys.
type outliers struct {
	name    string
	factor  float32 // of keys in these channels
	queries float32 // and of queries
}

const outlierEvery = 32

var outlierKinds = []outliers{
	{"normal", 1, 1},
	{"keys ×10", 10, 1},
	{"keys ×100", 100, 1},
	{"keys ×10, queries ÷10", 10, 0.1},
	{"keys ×100, queries ÷100", 100, 0.01},
}

// scaleChannels multiplies the channels with outliers.
func scaleChannels(x *Tensor, factor float32) {
	for i := range x.Data {
		if i%x.D%outlierEvery == outlierEvery/2 {
			x.Data[i] *= factor
		}
	}
}

// lowPrecision is a way to keep keys and values: in a format, or in I8 without the rotation, which
// is what it would be without it.
type lowPrecision struct {
	kind  Format
	plain bool
}

var lowPrecisions = []lowPrecision{{F16, false}, {BF16, false}, {I8, true}, {I8, false}}

// outputs returns outputs of causal attention over a cache of a kind.
func (w lowPrecision) outputs(t *testing.T, p *problem) []float32 {
	if w.plain {
		got := *p
		got.k, got.v = decoded(integersOfAll(p.k)), decoded(integersOfAll(p.v))
		return got.solve(t, Attend).o
	}
	c, err := NewCache(CacheConfig{Batch: p.k.B, KVHeads: p.k.H, HeadDim: p.k.D, ValueDim: p.v.D,
		Capacity: p.k.L, Format: w.kind})
	must(t, err)
	must(t, c.Append(p.k, p.v))
	got := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) })
	must(t, c.Close())
	return got.o
}

// relativeError returns the root mean square of got − want, divided by that of want.
func relativeError(got, want []float32) float64 {
	var errors, size float64
	for i, e := range want {
		errors += squared(float64(got[i]) - float64(e))
		size += squared(float64(e))
	}
	return math.Sqrt(errors / size)
}

// lowPrecisionBounds are the most that errors of normal data may be, for each of lowPrecisions.
var lowPrecisionBounds = [...]float64{5e-4, 4e-3, 2e-2, 2e-2}

func TestLowPrecisionErrors(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "| data | D | keys | F16 | BF16 | integers, not rotated | I8 "+
		"|\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, kind := range outlierKinds {
		for _, d := range []int{64, 128} {
			for _, keys := range []int{512, 8192} {
				if keys > 512 && (few() || tuned.ISA == tuning.Generic) { // which would take minutes
					continue
				}
				p := newProblem(random(fmt.Sprint("low precision ", d, keys)), normal,
					shape{1, 4, 1, 16, keys, d, d})
				scaleChannels(&p.k, kind.factor)
				scaleChannels(&p.q, kind.queries)
				p.opt.Causal = BottomRight
				errors := lowPrecisionErrors(t, p)
				fmt.Fprintf(&table, "| %s | %d | %d | %.2f | %.2f | %.2f | %.2f |\n", kind.name, d,
					keys, 100*errors[0], 100*errors[1], 100*errors[2], 100*errors[3])
				checkLowPrecision(t, kind, fmt.Sprintf("%s, D = %d, %d keys", kind.name, d, keys), errors)
			}
		}
	}
	t.Logf("relative errors of outputs in per cent (root mean square):\n%s", table.String())
	documented(t, table.String(), " D | keys |", " 128 | 512 |")
}

// documented fails where docs/low-precision.md does not show the rows of a table that have some
// sizes, without these columns. Bits are the same everywhere, and so is the table.
func documented(t *testing.T, table, columns, sizes string) {
	text, found := lowPrecisionText(t), 0
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		from := sizes
		if i == 0 {
			from = columns
		}
		short := strings.Replace(line, "|"+from, "|", 1)
		if short == line {
			continue
		}
		found++
		if !strings.Contains(text, "\n"+short+"\n") {
			t.Errorf("docs/low-precision.md has no line\n%s", short)
		}
	}
	if found < 2 {
		t.Errorf("no row has%s", sizes)
	}
}

// lowPrecisionText is the document that these tests belong to.
func lowPrecisionText(t *testing.T) string {
	text, err := os.ReadFile("docs/low-precision.md")
	must(t, err)
	return string(text)
}

// docs/low-precision.md names tests that exist.
func TestLowPrecisionNamesTests(t *testing.T) {
	var code strings.Builder
	for _, file := range []string{"low_precision_test.go", "cache_formats_test.go",
		"latent_test.go", "integers_test.go"} {
		part, err := os.ReadFile(file)
		must(t, err)
		code.Write(part)
	}
	names := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(lowPrecisionText(t), -1)
	if len(names) < 4 {
		t.Fatalf("%d tests are named, want at least 4", len(names))
	}
	for _, name := range names {
		if !strings.Contains(code.String(), "\nfunc "+name[1]+"(") {
			t.Errorf("docs/low-precision.md names %s, which does not exist", name[1])
		}
	}
}

// lowPrecisionErrors compares with a cache of F32.
func lowPrecisionErrors(t *testing.T, p *problem) (errors [len(lowPrecisionBounds)]float64) {
	want := lowPrecision{kind: F32}.outputs(t, p)
	for i, w := range lowPrecisions {
		errors[i] = relativeError(w.outputs(t, p), want)
	}
	return errors
}

func checkLowPrecision(t *testing.T, kind outliers, what string,
	errors [len(lowPrecisionBounds)]float64) {
	f16, bf16, i8, rotated := errors[0], errors[1], errors[2], errors[3]
	for i, e := range errors {
		if kind.factor == 1 && !(e <= lowPrecisionBounds[i]) {
			t.Errorf("%s, %v: the error is %.5f, want at most %v", what, lowPrecisions[i], e,
				lowPrecisionBounds[i])
		}
	}
	// larger scores decide between few keys, where an error is luck
	moderate := kind.factor*kind.queries <= 1
	if moderate && !(f16 > 0 && 5*f16 < bf16 && bf16 < 12*f16) { // eight times as coarse
		t.Errorf("%s: the error of BF16 is %.5f, want about eight times the %.5f of F16", what, bf16, f16)
	}
	if kind.factor == 1 && !(i8 < 1.5*rotated && rotated < 1.5*i8) {
		t.Errorf("%s: the error is %.5f rotated and %.5f not, want about the same", what, rotated, i8)
	}
	if kind.factor > 1 && !(rotated < 0.7*i8) {
		t.Errorf("%s: the error is %.5f rotated, want less than 0.7 of %.5f", what, rotated, i8)
	}
}

// constants says what is added to normal keys of 64 channels, all of which have it: a vector of so
// many times their size, whose pairs (i, i+32) turn with the position as rotary embeddings turn
// them, by base^(-i/32). Base 0 leaves it where it is. The first pair has number first.
type constants struct {
	name  string
	first int
	base  float64
}

var constantKinds = []constants{
	{"still", 0, 0},
	{"slowest 8 pairs, base 10⁶", 24, 1e6},
	{"slowest 8 pairs, base 10⁴", 24, 1e4},
	{"all pairs, base 10⁶", 0, 1e6},
}

// add adds the vector to each head's keys.
func (c constants) add(k Tensor, times float64, phases func() float64) {
	half := k.D / 2
	size := times * math.Sqrt(float64(k.D)/float64(half-c.first))
	for h := range k.H {
		for i := c.first; i < half; i++ {
			phase, turn := 2*math.Pi*phases(), 0.0
			if c.base > 0 {
				turn = math.Pow(c.base, -float64(i)/float64(half))
			}
			for j := range k.L {
				sin, cos := math.Sincos(phase + float64(float64(j)*turn))
				row := k.Row(0, h, j)
				row[i] += float32(size * cos)
				row[i+half] += float32(size * sin)
			}
		}
	}
}

// centered are keys less the mean of so many of them, each group its own, and what that takes from
// the scores, as Options.Bias gives it back: nothing that matters for softmax if there is one
// group.
func centered(p *problem, group int) (k Tensor, bias Tensor) {
	k = contiguous(p.k)
	bias = BHLD(make([]float32, p.q.H*p.q.L*k.L), 1, p.q.H, p.q.L, k.L)
	mean := make([]float64, k.D)
	for h := range k.H {
		for first := 0; first < k.L; first += group {
			clear(mean)
			for j := first; j < first+group; j++ {
				for x, e := range k.Row(0, h, j) {
					mean[x] += float64(e) / float64(group)
				}
			}
			for j := first; j < first+group; j++ {
				for x, m := range mean {
					k.Row(0, h, j)[x] = float32(float64(k.Row(0, h, j)[x]) - m)
				}
			}
			for i := range p.q.L {
				sum := 0.0
				for x, m := range mean {
					sum += float64(float64(p.q.Row(0, h, i)[x]) * m)
				}
				for j := first; j < first+group; j++ {
					bias.Row(0, h, i)[j] = float32(sum / math.Sqrt(float64(k.D)))
				}
			}
		}
	}
	return k, bias
}

// constantErrors returns errors of outputs, with keys in a format and values in F16: of keys as
// they are, less the mean of all, and less the means of blocks.
func constantErrors(t *testing.T, p *problem, keys Format, want []float32) (errors [3]float64) {
	for i, group := range []int{0, p.k.L, Block} {
		q := *p
		if group > 0 {
			q.k, q.opt.Bias = centered(p, group)
		}
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: p.k.H, HeadDim: p.k.D, ValueDim: p.v.D,
			Capacity: p.k.L, Format: keys, ValueFormat: F16})
		must(t, err)
		must(t, c.Append(q.k, q.v))
		got := q.solve(t, func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) })
		must(t, c.Close())
		errors[i] = 100 * relativeError(got.o, want)
	}
	return errors
}

// What large constants in channels of keys do, as biases of keys make them, and what is left when a
// mean is taken away before keys are rounded. The table of docs/low-precision.md is what this test
// prints.
func TestLowPrecisionConstants(t *testing.T) {
	var table strings.Builder
	table.WriteString("| constant | times the rest | keys | F16 | BF16 | I8 | less a mean | I4 | " +
		"less a mean |\n|---|" + strings.Repeat("---:|", 8) + "\n")
	for _, kind := range append([]constants{{name: "none"}}, constantKinds...) {
		for _, times := range []float64{10, 100} {
			for _, keys := range []int{512, 4096} {
				if kind.name == "none" {
					times = 0
				}
				if keys > 512 && (few() || tuned.ISA == tuning.Generic) { // which would take minutes
					continue
				}
				r := random(fmt.Sprint("constants ", keys))
				p := newProblem(r, normal, shape{1, 4, 1, 16, keys, 64, 64})
				kind.add(p.k, times, r.Float64)
				p.opt.Causal = BottomRight
				want := lowPrecision{kind: F32}.outputs(t, p)
				half, brain := constantErrors(t, p, F16, want), constantErrors(t, p, BF16, want)
				i8, i4 := constantErrors(t, p, I8, want), constantErrors(t, p, I4, want)
				fmt.Fprintf(&table, "| %s | %v | %d | %.2f | %.2f | %.2f | %.2f | %.1f | %.1f |\n", kind.name,
					times, keys, half[0], brain[0], i8[0], i8[1], i4[0], i4[1])
				if kind.first > 0 && !(i8[2] < 1 && i8[0] > 4 && i4[2] < 15) {
					t.Errorf("%s, %v times, %d keys: I8 %v, I4 %v; want slow pairs to cost above 4 %%, and with "+
						"means of blocks below 1 %% and 15 %%", kind.name, times, keys, i8, i4)
				}
			}
			if kind.name == "none" {
				break
			}
		}
	}
	t.Logf("relative errors of outputs in per cent (root mean square):\n%s", table.String())
	documented(t, table.String(), " keys |", " 512 |")
}

// matrixOutliers says what is done to one in 32 inputs of a matrix of normal weights.
var matrixOutliers = []struct {
	name            string
	inputs, weights float32
}{
	{"normal", 1, 1},
	{"inputs ×50", 50, 1},
	{"inputs ×50, weights ÷50", 50, 0.02},
	{"weights ×10", 1, 10},
	{"weights ×10, inputs ÷10", 0.1, 10},
	{"weights ×100, inputs ÷100", 0.01, 100},
}

// plainMatrix has the integers of I8 without the rotation.
func plainMatrix(w Tensor) Tensor {
	x := transposedView(w)
	y := decoded(integersOfAll(contiguous(x)))
	return contiguous(transposedView(y))
}

// What matrices of fewer bits do to products. The table of docs/low-precision.md is what this test
// prints.
func TestLowPrecisionMatrices(t *testing.T) {
	const rows, inner, cols = 16, 1024, 64
	var table strings.Builder
	table.WriteString("| one in 32 inputs | F16 | BF16 | BFloat16 | integers, not rotated | I8 | " +
		"Integers |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, kind := range matrixOutliers {
		r := random("matrices of fewer bits")
		a, w := tensor(r, normal, 1, 1, rows, inner), tensor(r, normal, 1, 1, inner, cols)
		scaleChannels(&a, kind.inputs)
		for i := outlierEvery / 2; i < inner; i += outlierEvery {
			for c := range cols {
				w.row(0, 0, i)[c] *= kind.weights
			}
		}
		want := matrixProduct(t, a, w, MatrixConfig{})
		var errors [6]float64
		for i, c := range []MatrixConfig{{Format: F16}, {Format: BF16}, {BFloat16: true}, {},
			{Format: I8},
			{Format: I8, Integers: true}} {
			x := w
			if i == 3 {
				x = plainMatrix(w)
			}
			errors[i] = 100 * relativeError(matrixProduct(t, a, x, c), want)
		}
		fmt.Fprintf(&table, "| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", kind.name, errors[0],
			errors[1], errors[2], errors[3], errors[4], errors[5])
		if stored, both := errors[1], errors[2]; both > 1.5*stored {
			t.Errorf("%s: the error of BFloat16 is %.4f %%, want 1.5 times the %.4f %% of BF16", kind.name,
				both, stored)
		}
		if plain, rotated := errors[3], errors[4]; rotated > 1.2*plain ||
			kind.weights > 1 && rotated > 0.5*plain {
			t.Errorf("%s: the error of I8 is %.4f %%, without a rotation %.4f %%", kind.name, rotated,
				plain)
		}
		if stored, ints := errors[4], errors[5]; ints < stored || ints > 2*stored {
			t.Errorf("%s: the error of Integers is %.4f %%, want 1 to 2 times the %.4f %% of I8", kind.name,
				ints, stored)
		}
	}
	t.Logf("relative errors of products in per cent (root mean square):\n%s", table.String())
	if text := lowPrecisionText(t); !strings.Contains(text, table.String()) {
		t.Errorf("docs/low-precision.md does not have this table:\n%s", table.String())
	}
}

// matrixProduct is a·w by a packed matrix.
func matrixProduct(t *testing.T, a, w Tensor, c MatrixConfig) []float32 {
	t.Helper()
	m, err := PackMatrix(w, c)
	must(t, err)
	dst := zeros(a.B, a.H, a.L, w.D)
	must(t, m.MatMul(dst, a, nil))
	must(t, m.Close())
	return dst.Data
}

// The memory of a layer with 32 heads of 128 and room for 128·1024 tokens, in MiB, as
// docs/low-precision.md gives it.
func TestLowPrecisionMemory(t *testing.T) {
	const tokens, heads = 128 << 10, 32
	for f, want := range map[formatPair]int{{F32, F32}: 4096, {F16, F16}: 2048, {BF16, BF16}: 2048,
		{I8, I8}: 1056, {I8, I4}: 800, {I4, I4}: 544} {
		s := packed.New(kernel.Format(f.keys), kernel.Format(f.values), heads, 128, 128, false)
		if got := heads * tokens / Block * s.Size; got != want<<20 {
			t.Errorf("%v: %d bytes, want %d MiB", f, got, want)
		}
	}
}

// F16 overflows to infinity where IEEE 754 says, and BF16 where float32 nearly does.
func TestLowPrecisionOverflow(t *testing.T) {
	inf := float32(math.Inf(1))
	forEach(t, func(t *testing.T) {
		for kind, want := range map[Format][]float32{
			F16:  {65504, 65504, inf, -inf, inf, nan32()},
			BF16: {65536, 65536, 65536, -65536, inf, nan32()},
		} {
			c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: len(want), ValueDim: len(want),
				Capacity: 1, Format: kind})
			must(t, err)
			x := BHLD([]float32{65504, 65519, 65520, -65520, inf, nan32()}, 1, 1, 1, len(want))
			must(t, c.Append(x, x))
			k, v := zeros(1, 1, 1, len(want)), zeros(1, 1, 1, len(want))
			must(t, c.Read(k, v, 0))
			for i, e := range want {
				for _, got := range []float32{k.Data[i], v.Data[i]} {
					if got != e && (got == got || e == e) {
						t.Errorf("%v: %v is read as %v, want %v", kind, x.Data[i], got, e)
					}
				}
			}
		}
	})
}

// The scales of values in a cache of I8 are no part of weights and log-sum-exps: weights sum to 1,
// and both stay if values grow.
func TestLowPrecisionWeights(t *testing.T) {
	p := newProblem(random("weights of integers"), normal, shape{1, 2, 2, 3, 200, 32, 16})
	var before []float32
	for _, factor := range []float32{1, 1000} {
		for i := range p.v.Data {
			p.v.Data[i] *= factor
		}
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 32, ValueDim: 16, Capacity: 200,
			Format: I8})
		must(t, err)
		must(t, c.Append(p.k, p.v))
		weights, lse := zeros(1, 4, 3, 200), make([]float32, 12)
		must(t, c.Attend(zeros(1, 4, 3, 16), p.q, &Options{Weights: weights, LSE: lse}))
		for row := range 12 {
			sum := 0.0
			for _, e := range weights.Data[row*200:][:200] {
				sum += float64(e)
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Errorf("row %d: weights sum to %v", row, sum)
			}
		}
		if got := append(weights.Data, lse...); before == nil {
			before = got
		} else {
			mustEqualBits(t, "weights and log-sum-exps with larger values", got, before)
		}
	}
}

// int8Kinds are data with the errors, in per cent, that a model of the definition in float64 gives
// for D = 64 and 128, and for each 512 and 4096 keys: of I8 that is only stored, and of integers.
var int8Kinds = []struct {
	outliers
	spread       float32 // of queries: the larger, the fewer keys decide
	stored, ints [4]float64
}{
	{outliers{"normal", 1, 1}, 1, [4]float64{.84, .81, .92, .93}, [4]float64{1.02, 1.01, 1.13, 1.11}},
	{outliers{"peaked: queries ×4", 1, 1}, 4, [4]float64{1.48, 1.54, 1.61, 1.78},
		[4]float64{1.82, 2.19, 2.08, 2.35}},
	{outliers{"keys ×10", 10, 1}, 1, [4]float64{1.38, 1.53, 1.35, 1.33},
		[4]float64{1.82, 1.71, 1.66, 1.62}},
	{outliers{"keys ×10, queries ÷10", 10, 0.1}, 1, [4]float64{1.09, 1.09, 1.33, 1.28},
		[4]float64{1.56, 1.56, 1.91, 1.79}},
	{outliers{"keys ×100, queries ÷100", 100, 0.01}, 1, [4]float64{5.07, 5.93, 6.83, 7.13},
		[4]float64{11.25, 11.76, 12.99, 12.38}},
}

// What arithmetic in integers does to outputs, beside I8 that is only stored. The table of
// docs/low-precision.md is what this test prints.
func TestLowPrecisionIntegers(t *testing.T) {
	var table strings.Builder
	table.WriteString("| data | D | keys | I8 | Integers |\n|---|---:|---:|---:|---:|\n")
	for _, kind := range int8Kinds {
		for i, size := range [][2]int{{64, 512}, {64, 4096}, {128, 512}, {128, 4096}} {
			d, keys := size[0], size[1]
			if keys > 512 && (few() || tuned.ISA == tuning.Generic) { // which would take minutes
				continue
			}
			p := newProblem(random(fmt.Sprint("integers ", d, keys)), normal,
				shape{1, 8, 1, 96, keys, d, d})
			scaleChannels(&p.k, kind.factor)
			scaleChannels(&p.q, kind.queries)
			for j := range p.q.Data {
				p.q.Data[j] *= kind.spread
			}
			want := p.solve(t, Attend).o
			stored := 100 * relativeError(lowPrecision{kind: I8}.outputs(t, p), want)
			p.opt.Integers = true
			ints := 100 * relativeError(p.solve(t, Attend).o, want)
			fmt.Fprintf(&table, "| %s | %d | %d | %.2f | %.2f |\n", kind.name, d, keys, stored, ints)
			for _, e := range []struct {
				name      string
				got, want float64
			}{{"I8", stored, kind.stored[i]}, {"Integers", ints, kind.ints[i]}} {
				if math.Abs(e.got-e.want) > 0.15*e.want {
					t.Errorf("%s, D = %d, %d keys, %s: the error is %.2f %%, the model's %.2f %%", kind.name, d,
						keys, e.name, e.got, e.want)
				}
			}
		}
	}
	t.Logf("relative errors of outputs in per cent (root mean square):\n%s", table.String())
	documented(t, table.String(), " D | keys |", " 128 | 512 |")
}

// levelKinds are data with the errors, in per cent, that a model of the definition in float64 gives
// for D = 64 and 128, and for each 512 and 4096 keys: of I8 with values in I4, and of I4.
var levelKinds = []struct {
	outliers
	spread         float32 // of queries
	values         float32 // of values in channels with outliers
	mixed, levels  [4]float64
	mixedI, levelI [4]float64 // with integers
}{
	{outliers{"normal", 1, 1}, 1, 1, [4]float64{8.96, 8.77, 9.14, 9.16},
		[4]float64{12.84, 12.83, 12.91, 13.13}, [4]float64{8.98, 8.80, 9.16, 9.18},
		[4]float64{12.85, 12.84, 12.94, 13.14}},
	{outliers{"peaked: queries ×4", 1, 1}, 4, 1, [4]float64{8.97, 9.07, 9.27, 9.36},
		[4]float64{22.76, 26.61, 22.61, 23.20}, [4]float64{9.06, 9.17, 9.37, 9.48},
		[4]float64{22.79, 26.61, 22.58, 23.26}},
	{outliers{"keys ×10", 10, 1}, 1, 1, [4]float64{8.97, 8.93, 9.27, 9.43},
		[4]float64{23.04, 27.01, 21.97, 25.45}, [4]float64{9.00, 8.98, 9.33, 9.50},
		[4]float64{23.06, 27.00, 22.01, 25.27}},
	{outliers{"keys ×10, queries ÷10", 10, 0.1}, 1, 1, [4]float64{9.07, 8.87, 9.27, 9.07},
		[4]float64{18.92, 19.39, 19.42, 19.48}, [4]float64{9.14, 8.96, 9.36, 9.15},
		[4]float64{18.96, 19.45, 19.47, 19.51}},
	{outliers{"values ×10", 1, 1}, 1, 10, [4]float64{8.53, 8.04, 9.04, 8.49},
		[4]float64{12.78, 12.25, 13.16, 12.71}, [4]float64{8.56, 8.07, 9.06, 8.51},
		[4]float64{12.79, 12.25, 13.19, 12.73}},
}

// What levels of four bits do to outputs. The table of docs/low-precision.md is what this test
// prints.
func TestLowPrecisionLevels(t *testing.T) {
	var table strings.Builder
	table.WriteString("| data | D | keys | I8 | I8, values in I4 | I4 | I8, values in I4, Integers " +
		"| I4, Integers |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, kind := range levelKinds {
		for i, size := range [][2]int{{64, 512}, {64, 4096}, {128, 512}, {128, 4096}} {
			d, keys := size[0], size[1]
			if keys > 512 && (few() || tuned.ISA == tuning.Generic) { // which would take minutes
				continue
			}
			p := newProblem(random(fmt.Sprint("levels ", d, keys)), normal, shape{1, 8, 1, 96, keys, d, d})
			scaleChannels(&p.k, kind.factor)
			scaleChannels(&p.q, kind.queries)
			scaleChannels(&p.v, kind.values)
			scaleBy(p.q.Data, kind.spread)
			want := p.solve(t, Attend).o
			fmt.Fprintf(&table, "| %s | %d | %d |", kind.name, d, keys)
			for _, c := range []struct {
				pair     formatPair
				integers bool
				model    float64
			}{{formatPair{I8, I8}, false, 0}, {formatPair{I8, I4}, false, kind.mixed[i]},
				{formatPair{I4, I4}, false, kind.levels[i]}, {formatPair{I8, I4}, true, kind.mixedI[i]},
				{formatPair{I4, I4}, true, kind.levelI[i]}} {
				p.opt.Integers = c.integers
				e := 100 * relativeError(p.solve(t, waysIn(c.pair)["Cache"]).o, want)
				fmt.Fprintf(&table, " %.2f |", e)
				if c.model > 0 && math.Abs(e-c.model) > 0.15*c.model {
					t.Errorf("%s, D = %d, %d keys, %v, Integers %t: the error is %.2f %%, the model's %.2f %%",
						kind.name, d, keys, c.pair, c.integers, e, c.model)
				}
			}
			p.opt.Integers = false
			table.WriteString("\n")
		}
	}
	t.Logf("relative errors of outputs in per cent (root mean square):\n%s", table.String())
	documented(t, table.String(), " D | keys |", " 128 | 512 |")
}
