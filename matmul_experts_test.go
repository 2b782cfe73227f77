package attn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/internal/memory"
)

// expertProblem is a call of MulExperts, and what it is to compute.
type expertProblem struct {
	dst, a  Tensor
	ms      []*Matrix
	experts View[int32]
	biases  [][]float32
}

// expertMatrices are matrices of every kind of inputs, all of the same shape.
func expertMatrices(t testing.TB, r *rand.Rand, n, inputs, outputs int) (ms []*Matrix) {
	t.Helper()
	for range n {
		m, err := randomMatrix(r, inputs, outputs)
		must(t, err)
		ms = append(ms, m)
	}
	return ms
}

// randomMatrix is a matrix of some format or block type that takes so many inputs.
func randomMatrix(r *rand.Rand, inputs, outputs int) (*Matrix, error) {
	if inputs%256 == 0 && r.IntN(2) == 0 {
		typ := integerBlockTypes[r.IntN(len(integerBlockTypes))]
		return PackBlocks(fileOfBlocks(r, typ, outputs, inputs), typ, outputs, inputs,
			blockConfigs[r.IntN(len(blockConfigs))])
	}
	c := MatrixConfig{Format: matrixTypes[r.IntN(len(matrixTypes))]}
	c.Integers = c.Format == I8 && r.IntN(2) == 0
	c.BFloat16 = c.Format != I8 && r.IntN(3) == 0
	return PackMatrix(tensor(r, normal, 1, 1, inputs, outputs), c)
}

// newExpertProblem draws a call for some matrices.
func newExpertProblem(r *rand.Rand, ms []*Matrix, tokens, n int) (x expertProblem) {
	_, _, inputs, outputs := ms[0].Dims()
	x.ms = ms
	x.experts = BHLD(make([]int32, tokens*n), 1, 1, tokens, n)
	likely := 1 + r.IntN(len(ms)) // some are chosen often, others never
	for i := range x.experts.Data {
		x.experts.Data[i] = int32(r.IntN(likely+1)) - 1
	}
	x.a = tensor(r, normal, 1, []int{1, n}[r.IntN(2)], tokens, inputs)
	x.dst = BHLD(nans(n*tokens*outputs), 1, n, tokens, outputs)
	if r.IntN(2) == 0 { // rows of a token side by side
		x.dst = BLHD(x.dst.Data, 1, tokens, n, outputs)
	}
	switch r.IntN(3) {
	case 0:
		for i := range ms {
			bias := tensor(r, normal, 1, 1, 1, outputs).Data
			if i%3 == 1 {
				bias = nil
			}
			x.biases = append(x.biases, bias)
		}
	case 1:
		x.biases = make([][]float32, len(ms))
	}
	return x
}

// want is each row's product alone.
func (x *expertProblem) want(t testing.TB) Tensor {
	t.Helper()
	want := zeros(1, x.dst.H, x.dst.L, x.dst.D)
	for i := range x.dst.L {
		for j, which := range x.experts.Row(0, 0, i) {
			if which < 0 {
				continue
			}
			a := BHLD(x.a.Row(0, min(j, x.a.H-1), i), 1, 1, 1, x.a.D)
			dst := BHLD(want.Row(0, j, i), 1, 1, 1, want.D)
			var bias []float32
			if x.biases != nil {
				bias = x.biases[which]
			}
			must(t, x.ms[which].MatMul(dst, a, bias))
		}
	}
	return want
}

// mustBe compares the rows of the output with others.
func (x *expertProblem) mustBe(t testing.TB, what string, want Tensor) {
	t.Helper()
	for j := range want.H {
		for i := range want.L {
			mustEqualBits(t, fmt.Sprint(what, " head ", j, " token ", i), x.dst.Row(0, j, i),
				want.Row(0, j, i))
		}
	}
}

// Rows of several matrices are the products of each alone, whatever lies next to them.
func TestMulExperts(t *testing.T) {
	shareSmallCalls(t)
	r := random(t.Name())
	forEach(t, func(t *testing.T) {
		for range budget(12) {
			inputs := []int{256, 512, 7, 96, 130, 300}[r.IntN(6)]
			ms := expertMatrices(t, r, 1+r.IntN(6), inputs, 1+r.IntN(90))
			x := newExpertProblem(r, ms, 1+r.IntN(40), 1+r.IntN(4))
			want := x.want(t)
			pool := NewPool(1 + r.IntN(9))
			for name, p := range map[string]*Pool{"alone": nil, "pool": pool} {
				fillWith(x.dst.Data, nan)
				must(t, p.MulExperts(x.dst, x.a, ms, x.experts, x.biases))
				x.mustBe(t, fmt.Sprint(name, " inputs ", inputs), want)
			}
			must(t, pool.Close())
		}
	})
}

// Matrices of a kind share what rows became, those of another kind do not; so do many rows of few
// matrices.
func TestMulExpertsOfEachKind(t *testing.T) {
	const inputs, outputs = 256, 17
	r := random(t.Name())
	kinds := map[string]func() (*Matrix, error){
		"Q4_K": func() (*Matrix, error) {
			return PackBlocks(fileOfBlocks(r, Q4_K, outputs, inputs), Q4_K, outputs, inputs,
				MatrixConfig{Integers: true})
		},
		"Q4_K in float32": func() (*Matrix, error) {
			return PackBlocks(fileOfBlocks(r, Q4_K, outputs, inputs), Q4_K, outputs, inputs,
				MatrixConfig{})
		},
	}
	for _, c := range matrixConfigs {
		kinds[fmt.Sprint(c.Format, c.Integers)] = func() (*Matrix, error) {
			return PackMatrix(tensor(r, normal, 1, 1, inputs, outputs), c)
		}
	}
	rounded, err := PackMatrix(tensor(r, normal, 1, 1, inputs, outputs), MatrixConfig{Format: I8})
	must(t, err)
	forEach(t, func(t *testing.T) {
		for name, pack := range kinds {
			var ms []*Matrix
			for range 2 {
				m, err := pack()
				must(t, err)
				ms = append(ms, m)
			}
			tokens := 3
			if !testing.Short() && r.IntN(2) == 0 { // emulated machines would take long
				tokens = matmul.Rows + 5
			}
			x := newExpertProblem(r, append(ms, rounded), tokens, 3)
			x.a = tensor(r, normal, 1, 1, tokens, inputs)
			for i := range x.experts.Data {
				x.experts.Data[i] = int32(i % 3)
			}
			want := x.want(t)
			for _, p := range []*Pool{nil, threeWorkers()} {
				must(t, p.MulExperts(x.dst, x.a, x.ms, x.experts, x.biases))
				x.mustBe(t, name, want)
			}
		}
	})
}

// Rows without a matrix are +0, whatever their inputs and the bias hold, and the others do not see
// these inputs.
func TestMulExpertsWithoutExpert(t *testing.T) {
	r := random(t.Name())
	ms := expertMatrices(t, r, 3, 256, 40)
	x := newExpertProblem(r, ms, 9, 2)
	x.a = tensor(r, normal, 1, 2, 9, 256)
	want := x.want(t)
	for i := range x.a.L {
		for j, which := range x.experts.Row(0, 0, i) {
			if which < 0 {
				fillWith(x.a.Row(0, j, i), nan)
			}
		}
	}
	for _, p := range []*Pool{nil, threeWorkers()} {
		fillWith(x.dst.Data, nan)
		must(t, p.MulExperts(x.dst, x.a, ms, x.experts, x.biases))
		x.mustBe(t, "with NaN", want)
		fillWith(x.dst.Data, nan)
		nobody := View[int32]{Data: []int32{-1}, B: 1, H: 1, L: 9, D: 1, SL: Broadcast}
		must(t, p.MulExperts(rowsOf(x.dst.Heads(0, 1), 0, 9), x.a.Heads(0, 1), ms, nobody, x.biases))
		mustEqualBits(t, "nobody", x.dst.Row(0, 0, 8), make([]float32, 40))
		must(t, p.MulExperts(zeros(1, 2, 0, 40), zeros(1, 1, 0, 256), ms,
			View[int32]{B: 1, H: 1, D: 2}, nil))
		must(t, p.MulExperts(zeros(1, 1, 1, 2), zeros(1, 1, 1, 3), nil,
			BHLD([]int32{-1}, 1, 1, 1, 1), nil))
	}
}

// Inputs and choices of all tokens may be the same ones.
func TestMulExpertsBroadcast(t *testing.T) {
	r := random(t.Name())
	ms := expertMatrices(t, r, 4, 256, 33)
	x := newExpertProblem(r, ms, 20, 3)
	x.a = Tensor{Data: tensor(r, normal, 1, 1, 1, 256).Data, B: 1, H: 3, L: 20, D: 256,
		SB: Broadcast, SH: Broadcast, SL: Broadcast}
	x.experts = View[int32]{Data: []int32{2, 0, 2}, B: 1, H: 1, L: 20, D: 3, SL: Broadcast}
	want := x.want(t)
	for _, p := range []*Pool{nil, threeWorkers()} {
		must(t, p.MulExperts(x.dst, x.a, ms, x.experts, x.biases))
		x.mustBe(t, "broadcast", want)
	}
}

// FuzzExperts: products of chosen matrices are those of each alone, for any strides, tuning and
// number of workers, and touch nothing around the operands; an index of no matrix is refused.
func FuzzExperts(f *testing.F) {
	seedInputs(f)
	operands := new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := randomFrom(data)
		anyTuning(t, r)
		inputs := []int{256, 512, 1 + r.IntN(300)}[r.IntN(3)]
		ms := expertMatrices(t, r, 1+r.IntN(4), inputs, 1+r.IntN(40))
		x := newExpertProblem(r, ms, r.IntN(16), 1+r.IntN(3))
		x.a = tensor(r, distribution(r.IntN(int(distributions))), 1, x.a.H, x.a.L, inputs)
		same := r.IntN(4) == 0 // all tokens
		if same && x.a.L > 0 {
			for i := range x.a.L {
				copy(x.experts.Row(0, 0, i), x.experts.Row(0, 0, 0))
				for h := range x.a.H {
					copy(x.a.Row(0, h, i), x.a.Row(0, h, 0))
				}
			}
		}
		want := x.want(t)
		operands.Used = [3]int{}
		_, a := scatter(r, &operands.Floats, &operands.Used[0], x.a, [3]bool{2: same}, nan32())
		const canary = 12345
		got := zeros(1, x.dst.H, x.dst.L, x.dst.D)
		out, _ := scatter(r, &operands.Floats, &operands.Used[0], got, [3]bool{}, canary)
		experts := listsApart(r, x.experts, same)
		if at := r.IntN(4 * (1 + len(experts.Data))); at < len(experts.Data) && !out.empty() {
			was := experts.Data[at]
			experts.Data[at] = []int32{-2, int32(len(ms)), math.MinInt32, math.MaxInt32}[r.IntN(4)]
			if was != unused {
				gather(t, got, out, canary)
				mustFail(t, "MulExperts", MulExperts(out, a, ms, experts, x.biases), ErrOption)
				gather(t, got, out, canary)
			}
			experts.Data[at] = was
		}
		anyTuning(t, r)
		for _, p := range []*Pool{nil, pools[1+r.IntN(9)]()} {
			must(t, p.MulExperts(out, a, ms, experts, x.biases))
			gather(t, got, out, canary)
			mustEqualBits(t, fmt.Sprint(p == nil), got.Data, want.Data)
		}
		for _, m := range ms {
			must(t, m.Close())
		}
	})
}

// unused is an element between lists of experts, which nobody reads.
const unused = 1<<31 - 5

// listsApart is lists with gaps between them, or one for all tokens if these have the same.
func listsApart(r *rand.Rand, lists View[int32], same bool) View[int32] {
	pitch := lists.D + r.IntN(3)
	if same && lists.L > 0 && r.IntN(3) > 0 {
		lists.SB, lists.SH, lists.SL = Broadcast, Broadcast, Broadcast
		lists.Data = lists.Data[:lists.D]
		return lists
	}
	data := slices.Repeat([]int32{unused}, lists.L*pitch)
	for i := range lists.L {
		copy(data[i*pitch:], lists.Row(0, 0, i))
	}
	return View[int32]{Data: data, B: 1, H: 1, L: lists.L, D: lists.D, SB: -3, SH: 0, SL: pitch}
}

// Calls of one Pool run concurrently; when it is closed, running calls finish.
func TestMulExpertsConcurrently(t *testing.T) {
	shareSmallCalls(t)
	r := random(t.Name())
	ms := expertMatrices(t, r, 5, 256, 60)
	pool := NewPool(3)
	var callers, begun sync.WaitGroup
	for range 4 {
		x := newExpertProblem(r, ms, 12, 3)
		want := x.want(t)
		begun.Add(1)
		callers.Go(func() {
			for i := 0; ; i++ {
				err := pool.MulExperts(x.dst, x.a, ms, x.experts, x.biases)
				if i > 0 && errors.Is(err, ErrClosed) {
					return
				}
				if i == 0 {
					begun.Done()
				}
				if err != nil || x.difference(want) != "" {
					t.Errorf("call %d: %v, %s", i, err, x.difference(want))
					return
				}
				fillWith(x.dst.Data, nan)
			}
		})
	}
	begun.Wait()
	time.Sleep(5 * time.Millisecond)
	must(t, pool.Close())
	callers.Wait()
}

// difference says which row of the output is none of another one.
func (x *expertProblem) difference(want Tensor) string {
	for n := range want.H * want.L {
		got, row := x.dst.Row(0, n/want.L, n%want.L), want.Row(0, n/want.L, n%want.L)
		if !slices.EqualFunc(got, row, kerneltest.SameBits) {
			return fmt.Sprintf("row %d is %v, want %v", n, got, row)
		}
	}
	return ""
}

func TestMulExpertsErrors(t *testing.T) {
	pack := func(batch, inputs, outputs int) *Matrix {
		m, err := PackMatrix(zeros(batch, 1, inputs, outputs), MatrixConfig{})
		must(t, err)
		return m
	}
	m, two, closed := pack(1, 4, 5), pack(2, 4, 5), pack(1, 4, 5)
	must(t, closed.Close())
	memory := nans(60)
	dst, a := BHLD(memory[:30], 1, 2, 3, 5), BHLD(memory[30:42], 1, 1, 3, 4)
	numbers := []int32{0, 1, -1, 0, 1, 1}
	experts := BHLD(numbers, 1, 1, 3, 2)
	ms := []*Matrix{m, m}
	type call struct {
		dst, a  Tensor
		ms      []*Matrix
		experts View[int32]
		biases  [][]float32
	}
	for _, c := range []struct {
		call call
		kind error
		text string
	}{
		{call{dst, a, ms, View[int32]{}, nil}, ErrShape, "experts.D is 0, want 1 to 268435456"},
		{call{dst, a, ms, BHLD(numbers[:5], 1, 1, 3, 2), nil}, ErrLength,
			"len(experts.Data) is 5, want at least 6 for [1 1 3 2] with strides [6 6 2]"},
		{call{dst, a, ms, BHLD(numbers, 1, 3, 1, 2), nil}, ErrShape, "experts is [1 3 …], want [1 1 …]"},
		{call{dst, BHLD(memory[30:42], 1, 3, 1, 4), ms, experts, nil}, ErrShape,
			"a is [1 3 1 …], want [1, 2 or 1, 3, …] as experts has 2 for each of 3 tokens"},
		{call{BHLD(memory[:30], 1, 3, 2, 5), a, ms, experts, nil}, ErrShape,
			"dst is [1 3 2 …], want [1 2 3 …] as experts has 2 for each of 3 tokens"},
		{call{View[float32]{Data: memory, B: 1, H: 2, L: 3, D: 5, SB: 1, SH: 5, SL: Broadcast}, a, ms,
			experts, nil}, ErrStride, "dst has a stride of Broadcast over 3 elements, want at least 5 so " +
			"that no two outputs coincide"},
		{call{dst, BHLD(memory[30:41], 1, 1, 3, 4), ms, experts, nil}, ErrLength,
			"len(a.Data) is 11, want at least 12 for [1 1 3 4] with strides [12 12 4]"},
		{call{BHLD(memory[:29], 1, 2, 3, 5), a, ms, experts, nil}, ErrLength,
			"len(dst.Data) is 29, want at least 30 for [1 2 3 5] with strides [30 15 5]"},
		{call{dst, a, []*Matrix{m, nil}, experts, nil}, ErrOption, "ms[1] is nil, want a matrix"},
		{call{dst, a, []*Matrix{closed, m}, experts, nil}, ErrClosed,
			"the matrix was closed, or is not from PackMatrix (ms[0])"},
		{call{dst, a, []*Matrix{m, two}, experts, nil}, ErrShape, "ms[1] is [2 1 …], want [1 1 …]"},
		{call{dst, a, []*Matrix{m, pack(1, 4, 6)}, experts, nil}, ErrShape,
			"ms[1] has 4 inputs and 6 outputs, want 4 as a.D and 5 as dst.D"},
		{call{dst, a, []*Matrix{pack(1, 3, 5), m}, experts, nil}, ErrShape,
			"ms[0] has 3 inputs and 5 outputs, want 4 as a.D and 5 as dst.D"},
		{call{dst, a, ms[:1], experts, nil}, ErrOption, "experts[0][1] is 1, want -1 to 0"},
		{call{dst, a, nil, experts, nil}, ErrOption,
			"experts[0][0] is 0, want -1 as there are no matrices"},
		{call{dst, a, ms, BHLD([]int32{0, 0, 0, -2, 0, 0}, 1, 1, 3, 2), nil}, ErrOption,
			"experts[1][1] is -2, want -1 to 1"},
		{call{dst, a, ms, experts, [][]float32{nil}}, ErrLength,
			"len(biases) is 1, want nil or 2 as there are matrices"},
		{call{dst, a, ms, experts, [][]float32{nil, memory[50:54]}}, ErrLength,
			"len(biases[1]) is 4, want 5"},
		{call{dst, BHLD(memory[29:41], 1, 1, 3, 4), ms, experts, nil}, ErrOverlap,
			"dst overlaps a, want separate memory"},
		{call{dst, a, ms, experts, [][]float32{nil, memory[25:30]}}, ErrOverlap,
			"dst overlaps biases[1], want separate memory"},
	} {
		for _, p := range []*Pool{nil, threeWorkers()} {
			err := p.MulExperts(c.call.dst, c.call.a, c.call.ms, c.call.experts, c.call.biases)
			mustFail(t, c.text, err, c.kind, c.text)
		}
		mustBeUntouched(t, BHLD(memory, 1, 1, 1, 60))
	}
	clear(memory[24:30])
	err := MulExperts(dst, a, ms, BHLD(unsafe.Slice((*int32)(unsafe.Pointer(&memory[24])), 6), 1, 1, 3,
		2), nil)
	mustFail(t, "experts in dst", err, ErrOverlap, "dst overlaps experts, want separate memory")
	// what is repeated more often than anybody could read it
	const most = maxLength
	everybody := View[int32]{Data: make([]int32, 64), B: 1, H: 1, L: most, D: 64, SL: Broadcast}
	err = MulExperts(repeated(memory, 1, 64, most, 5), repeated(memory[30:], 1, 1, most, 4), ms,
		everybody, nil)
	mustFail(t, "repeated outputs", err, ErrStride)
	ended := NewPool(2)
	must(t, ended.Close())
	mustFail(t, "closed", ended.MulExperts(dst, a, ms, experts, nil), ErrClosed)
}

// expertLayers are layers of 128 experts of 768 × 2048 in an arena that no cache holds.
func expertLayers(b *testing.B, room *memory.Mapping) (layers [][]*Matrix) {
	const experts, inputs, outputs = 128, 2048, 768
	data := ordinaryBlocks(random("experts"), Q4_K, outputs, inputs)
	m, err := PackBlocks(data, Q4_K, outputs, inputs, MatrixConfig{Integers: true})
	must(b, err)
	size, arena := len(m.body.Elements()), room.Bytes()
	for len(arena) >= experts*size {
		var layer []*Matrix
		for range experts {
			layer = append(layer, copyIn(m, room, arena[:size]))
			arena = arena[(size+63)/64*64:]
		}
		layers = append(layers, layer)
	}
	return layers
}

// readExperts reads the matrices of some experts, a worker each.
type readExperts struct {
	ms      []*Matrix
	experts []int32
}

func (x readExperts) Work(i int) { readAll(x.ms[x.experts[i]].body.Elements()) }

// BenchmarkExperts is products by experts of a layer. Of one token by 8 of 128 experts it reports
// the rate of reading as per cent of what loops over as many bytes reach; of 512 tokens the rate of
// products as per cent of the rate of one call after another with as many rows each.
func BenchmarkExperts(b *testing.B) {
	arena, err := memory.Allocate(coldMatrices)
	must(b, err)
	defer arena.Close()
	layers := expertLayers(b, arena)
	r := random(b.Name())
	for _, workers := range []int{1, 2} {
		pool := NewPool(workers)
		for _, tokens := range []int{1, 4, 32, 512} {
			b.Run(fmt.Sprintf("tokens=%d/workers=%d", tokens, workers), func(b *testing.B) {
				a, dst := tensor(r, normal, 1, 1, tokens, 2048), zeros(1, 8, tokens, 768)
				experts, turn := BHLD(make([]int32, tokens*8), 1, 1, tokens, 8), 0
				draw := func() []*Matrix {
					for t := range tokens {
						copy(experts.Row(0, 0, t), int32s(r.Perm(128)[:8]))
					}
					turn++
					return layers[turn%len(layers)]
				}
				if tokens == 512 {
					benchmarkManyExperts(b, pool, dst, a, experts, draw)
				} else {
					benchmarkFewExperts(b, pool, dst, a, experts, draw)
				}
			})
		}
		must(b, pool.Close())
	}
}

func int32s(x []int) (y []int32) {
	for _, e := range x {
		y = append(y, int32(e))
	}
	return y
}

func benchmarkFewExperts(b *testing.B, pool *Pool, dst, a Tensor, experts View[int32],
	draw func() []*Matrix) {
	var times, reads []float64
	for b.Loop() {
		for i := range 2 * 10 { // workers expect the next one
			ms := draw()
			start := time.Now()
			if i < 10 {
				must(b, pool.MulExperts(dst, a, ms, experts, nil))
				times = append(times, float64(time.Since(start)))
			} else {
				distinct := slices.Compact(slices.Sorted(slices.Values(experts.Data)))
				start = time.Now()
				must(b, pool.Run(len(distinct), readExperts{ms, distinct}))
				reads = append(reads, float64(time.Since(start)))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*measure.Median(reads)/measure.Median(times), "percent")
	b.ReportMetric(measure.Median(times)/1000, "µs")
}

func benchmarkManyExperts(b *testing.B, pool *Pool, dst, a Tensor, experts View[int32],
	draw func() []*Matrix) {
	ratio(b, func() error { return pool.MulExperts(dst, a, draw(), experts, nil) },
		func() error {
			ms, counts := draw(), make([]int, 128)
			for _, e := range experts.Data {
				counts[e]++
			}
			for e, n := range counts {
				one, input := BHLD(dst.Data, 1, 1, n, dst.D), rowsOf(a, 0, n)
				if err := pool.MulMatrix(one, input, ms[e], nil); err != nil {
					return err
				}
			}
			return nil
		})
}

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
