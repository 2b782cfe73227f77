package attn

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/product"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

func zeroView(b, h, l, d int) *views.Tensor {
	v := views.Contiguous(make([]float32, b*h*l*d), b, h, l, d)
	return &v
}

// anyView is normally distributed numbers.
func anyView(r *rand.Rand, b, h, l, d int) *views.Tensor {
	v := zeroView(b, h, l, d)
	kerneltest.Normal.Fill(r, v.Data)
	return v
}

// someBodies are matrices of 21 outputs, of floats, of integers and of blocks.
func someBodies(t *testing.T, inputs int) (ms []*matrixBody) {
	w := anyView(kerneltest.Random("bodies"), 1, 1, inputs, 21)
	for _, c := range []matrixConfig{{}, {Format: kernel.BF16}, {Format: kernel.I8},
		{Format: kernel.I8, Integers: true}} {
		m, err := packMatrix(&tuned, w, c)
		must(t, err)
		ms = append(ms, m)
	}
	for _, integers := range []bool{false, true} {
		data := make([]byte, 21*inputs/32*blocks.Q8_0.Traits().Bytes)
		for i := range data {
			data[i] = byte(i * i % 32) // scales are small numbers
		}
		m, err := packBlocks(data, blocks.Q8_0, 21, inputs, matrixConfig{Integers: integers})
		must(t, err)
		ms = append(ms, m)
	}
	return ms
}

// setReads says whether memory is read in order, and how much of it the cache holds.
func setReads(t *testing.T, inOrder bool, l2 int) {
	kerneltest.ReadingAs(t, tuning.QueuedReads)
	if inOrder {
		kerneltest.ReadingAs(t, tuning.SequentialReads)
	}
	tuned.L2, tuned.OnePanel = l2, false
}

// Few rows read the panels of a matrix sequentially if it comes from memory.
func TestMatrixReadsSequentially(t *testing.T) {
	m, err := packMatrix(&tuned, zeroView(1, 1, 32, panel), matrixConfig{})
	must(t, err)
	for _, c := range []struct {
		inOrder     bool
		rows, bytes int
		want        bool
	}{
		{true, 1, 0, true},
		{true, inPlaceRows, 0, true},
		{true, inPlaceRows + 1, 0, false},
		{false, 1, 0, false},
		{true, 1, len(m.data), false},
	} {
		setReads(t, c.inOrder, c.bytes)
		p := projection{t: &tuned, dst: *zeroView(1, 1, c.rows, panel), m: m}
		if got := p.panelsSequential(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// Rows are divided into about equal parts, of whole tiles but for the last.
func TestPartOfRows(t *testing.T) {
	for _, even := range []int{kernel.SplitRows, tuning.AMXRows} {
		for rows := range 5 * product.Rows {
			step := product.PartOfRows(rows, product.Rows, even)
			if step <= 0 || step > product.Rows || step < product.Rows && step%even != 0 {
				t.Fatalf("%d rows: %d at a time", rows, step)
			}
			parts, least := (rows+step-1)/step, (rows+product.Rows-1)/product.Rows
			last := rows - (parts-1)*step
			if parts != least || parts > 1 && last <= step-even*parts {
				t.Errorf("%d rows are %d parts of %d, the last one of %d; want %d parts", rows, parts, step,
					last, least)
			}
		}
	}
}

// Sums of MatMul that are gathered, of some rows or heads at a time, are those that are not.
func TestMatMulGathers(t *testing.T) {
	r, row := kerneltest.Random(t.Name()), tuned
	for _, c := range []struct{ b, h, rightB, rightH, rows, cols int }{
		{1, 1, 1, 1, gatheredRows + 9, 3}, {2, 3, 1, 1, 7, 37}, {2, 3, 2, 3, 9, 16},
		{1, 3, 1, 1, gatheredRows/2 + 1, 2}, {2, 2, 1, 2, gatheredRows / 4, 2},
	} {
		a := anyView(r, c.b, c.h, c.rows, product.Inner+3)
		right := anyView(r, c.rightB, c.rightH, product.Inner+3, c.cols)
		multiplied := func(l2 int, gathers bool) *views.Tensor {
			row.L2 = l2
			kerneltest.UseTuning(t, row)
			dst := zeroView(c.b, c.h, c.rows, c.cols) // heads side by side
			dst.SB, dst.SH, dst.SL = c.rows*c.h*c.cols, c.cols, c.h*c.cols
			p := multiplication{t: &tuned, dst: *dst, a: *a, b: *right}
			must(t, p.check())
			if p.partition(1); p.gathered != gathers {
				t.Fatalf("%+v: gathers %t with an L2 cache of %d bytes", c, p.gathered, l2)
			}
			must(t, matMul(&tuned, dst, a, right))
			return dst
		}
		got, want := multiplied(0, true), multiplied(1<<30, false)
		if i := kerneltest.FirstDifference(got.Data, want.Data); i >= 0 {
			t.Errorf("%+v: element %d is %v, want %v", c, i, got.Data[i], want.Data[i])
		}
	}
}

// Products for several workers have blocks of which a quarter does not keep the others waiting for
// long, unless a does not stay in the cache. Few rows for one worker have as few blocks as can be.
func TestPartitionForWorkers(t *testing.T) {
	row := tuned
	row.L2 = 1 << 20
	kerneltest.UseTuning(t, row)
	for _, c := range []struct{ rows, inner, cols, workers, units, width int }{
		{128, 768, 768, 1, 3, 256},
		{128, 768, 768, 2, 12, 64},
		{128, 768, 3072, 2, 24, 128},
		{128, 768, 3072, 64, 96, 32},
		{128, 4096, 4096, 2, 16, 256},
		{4, 768, 768, 2, 12, 64},
		{1, 4096, 4096, 1, 1, 4096}, // one stream of memory
		{8, 4096, 16384, 1, 4, 4096},
		{9, 4096, 4096, 1, 16, 256},
		{1, 4096, 4096, 2, 8, 512},
	} {
		p := projection{t: &tuned, dst: views.Tensor{B: 1, H: 1, L: c.rows, D: c.cols},
			m: &matrixBody{inner: c.inner, cols: c.cols}}
		p.partition(c.workers)
		if p.tasks() != c.units || p.cols != c.width {
			t.Errorf("%+v: %d units of %d columns", c, p.tasks(), p.cols)
		}
	}
}

// A worker prefetches what it reads next: the same columns' next inner steps, for the next rows
// from the beginning, then the next columns.
func TestMatrixPrefetchesWhatFollows(t *testing.T) {
	m, err := packMatrix(&tuned, zeroView(1, 1, 2*product.Inner+5, 2*productCols+20), matrixConfig{})
	must(t, err)
	defer m.Close()
	for _, reads := range []tuning.Reads{tuning.QueuedReads, tuning.PagedReads,
		tuning.SequentialReads} {
		kerneltest.ReadingAs(t, reads)
		for _, rows := range []int{inPlaceRows, inPlaceRows + 1, product.Rows, product.Rows + 1} {
			p := projection{t: &tuned, dst: *zeroView(1, 1, rows, m.cols), m: m}
			p.partition(1)
			var read, prefetched []uintptr
			for i := range p.tasks() {
				u := p.block(i)
				for k := 0; k < m.inner; k += product.Inner {
					part, _ := m.floatPanels(&tuned, u.b, u.h, k, u.first, u.Cols)
					read, prefetched = append(read, operand.Address(part, 0)), append(prefetched, p.after(&u, k))
				}
			}
			for i, got := range prefetched {
				want := read[(i+1)%len(read)]
				if rows <= inPlaceRows || reads == tuning.PagedReads && rows < 48 {
					want = 0
				}
				if got != want {
					t.Errorf("%v, %d rows: after part %d of %d, %#x is prefetched, want %#x", reads, rows, i,
						len(read), got, want)
				}
			}
		}
	}
}

// Where two and three rows take one packed panel after another, few rows read packed panels of much
// memory in order.
func TestMatrixReadsOnePanel(t *testing.T) {
	setReads(t, false, 0)
	m, err := packMatrix(&tuned, zeroView(1, 1, 32, panel), matrixConfig{})
	must(t, err)
	for _, one := range []bool{false, true} {
		tuned.OnePanel = one
		p := projection{t: &tuned, dst: *zeroView(1, 1, 2, panel), m: m}
		if got := p.panelsSequential(); got != one {
			t.Errorf("OnePanel %t: a matrix is read in order: %t", one, got)
		}
	}
}

// Few rows prefetch further in one run of memory.
func TestMatrixPrefetchesARun(t *testing.T) {
	row := tuned
	row.PrefetchOne, row.PrefetchFew, row.PrefetchRun = 1000, 2000, 300
	kerneltest.UseTuning(t, row)
	m, err := packMatrix(&tuned, zeroView(1, 1, 32, panel), matrixConfig{})
	must(t, err)
	_, got := m.floatPanels(&tuned, 0, 0, 0, 0, panel)
	if got.PrefetchOne != 1000 || got.PrefetchFew != 2300 {
		t.Errorf("a matrix: %d and %d bytes ahead", got.PrefetchOne, got.PrefetchFew)
	}
}

// In whatever order a matrix is packed, the bits are the same, and nothing is left from others.
func TestPackInAnyOrder(t *testing.T) {
	w := anyView(kerneltest.Random(t.Name()), 1, 2, product.Inner+9, packCols+17)
	for _, c := range []matrixConfig{{}, {Format: kernel.F16}, {Format: kernel.BF16},
		{Format: kernel.I8}, {Format: kernel.I8, Integers: true}} {
		for _, c.Transposed = range []bool{false, true} {
			want, err := packMatrix(&tuned, w, c)
			must(t, err)
			for _, workers := range []int{1, 3, 1000} {
				x, err := newPacking(&tuned, *w, c)
				must(t, err)
				x.divide(workers)
				s := &productMemory{k: kerneltest.Nans(product.Inner * packCols)}
				for i := range x.tasks() {
					x.Task(s, x.tasks()-1-i)
				}
				m, err := x.finish()
				must(t, err)
				if !bytes.Equal(m.data, want.data) || !slices.Equal(m.scales, want.scales) {
					t.Errorf("%+v, %d workers: another matrix", c, workers)
				}
				must(t, m.Close())
			}
		}
	}
	if limit := (&packing{m: &matrixBody{rotation: 128}}).limit(); limit != math.MaxFloat32/128 {
		t.Errorf("the limit is %v", limit)
	}
}

// What decoding takes counts where work is shared among workers: most of the time of few rows, and
// little of that of many.
func TestDecodingCounts(t *testing.T) {
	const inputs, outputs = 512, 1024
	data := make([]byte, outputs*inputs/256*blocks.Q4_K.Traits().Bytes)
	var costs [2][2]float64 // of few and many rows, in integers and not
	for i, integers := range []bool{true, false} {
		m, err := packBlocks(data, blocks.Q4_K, outputs, inputs, matrixConfig{Integers: integers})
		must(t, err)
		for j, rows := range []int{1, widenedRows} {
			p := projection{t: &tuned, dst: *zeroView(1, 1, rows, outputs), m: m}
			costs[j][i] = p.cost()
		}
		must(t, m.Close())
	}
	if few := costs[0][1] / costs[0][0]; few < 4 {
		t.Errorf("one row takes %.2f times as long as in integers, want 4 at least", few)
	}
	if many := costs[1][1] / costs[1][0]; many <= 1 || many > 1.1 {
		t.Errorf("%d rows take %.2f times as long, want 1 to 1.1", widenedRows, many)
	}
}

// Rows that do not fit go in several parts.
func TestMulMatricesInParts(t *testing.T) {
	ms := someBodies(t, 256)
	a := anyView(kerneltest.Random("a"), 1, 2, 7, 256)
	want, got := make([]views.Tensor, len(ms)), make([]views.Tensor, len(ms))
	for i, m := range ms {
		want[i], got[i] = *zeroView(1, 2, 7, m.cols), *zeroView(1, 2, 7, m.cols)
		must(t, m.MatMul(&tuned, &want[i], a, nil))
	}
	inParts(&targets{&tuned, got, ms, nil}, inputsOf(&tuned, *a, ms), 3)
	for i := range ms {
		kerneltest.MustEqualBits(t, fmt.Sprint(i), got[i].Data, want[i].Data)
	}
}

// inParts computes products of at most some rows at a time, and returns the first row of each part.
func inParts(q *targets, x preparation, most int) (firsts []int) {
	w, ok := new(productMemory), false
	for x, ok = x.next(w, most); ok; x, ok = x.next(w, most) {
		firsts = append(firsts, x.first)
		x.run()
		for s, more := x.share(0, len(q.ms)); more; s, more = x.share(s.which+1, len(q.ms)) {
			p := q.product(&x, s)
			p.partition(1)
			for i := range p.tasks() {
				p.task(i)
			}
		}
	}
	return append(firsts, x.first)
}

// Units of many rows are all quarters of blocks, which are all elements once. They become shorter,
// so that nobody waits long for the last one, and one worker has one.
func TestStretches(t *testing.T) {
	r := kerneltest.Random(t.Name())
	for range kerneltest.Budget(50) {
		inner, rows := 1+r.IntN(3000), 9+r.IntN(300)
		q := products{targets: targets{t: &tuned}, inputs: preparation{a: views.Tensor{D: inner}}}
		var times [][]int // that rows of panels are computed
		for range 1 + r.IntN(3) {
			m := &matrixBody{inner: inner, cols: 1 + r.IntN(1000)}
			q.now = append(q.now, projection{t: &tuned, m: m, dst: views.Tensor{B: 1, H: 1, L: rows, D: m.cols}})
			times = append(times, make([]int, rows*partsOf(m.cols, panel)))
		}
		workers := 1 + r.IntN(20)
		n, from := q.partition(workers), 0
		for i := range n {
			to := q.tasks[i]
			if i > 0 && n > 1 && to-from > q.tasks[0] || workers == 1 && n > 1 {
				t.Fatalf("unit %d of %d, for %d workers, has %d quarters, the first %d", i, n, workers,
					to-from, q.tasks[0])
			}
			for taken := 0; from < to; from += taken {
				which, before := q.find(from)
				p := &q.now[which]
				i := (from - before) % quarters
				var u productBlock
				u, taken = p.block((from-before)/quarters).quarters(i, min(to-from, quarters-i), p.evenRows())
				for row := range max(0, u.Rows) {
					for c := 0; c < u.Cols; c += panel {
						times[which][(u.first+c)/panel*rows+u.row+row]++
					}
				}
			}
		}
		for which, all := range times {
			if slices.Min(all) != 1 || slices.Max(all) != 1 {
				t.Fatalf("product %d: something is computed %d to %d times", which, slices.Min(all),
					slices.Max(all))
			}
		}
	}
}

// fewRowsTypes are some types of blocks whose few rows are multiplied in runs.
var fewRowsTypes = []blocks.Type{blocks.Q8_0, blocks.Q4_0, blocks.Q4_K, blocks.Q6_K, blocks.MXFP4,
	blocks.Q3_K, blocks.TQ2_0}

// Runs of few rows by blocks are all columns once, in whole panels; for one worker whole matrices.
func TestRunsOfPanels(t *testing.T) {
	r := kerneltest.Random(t.Name())
	for range kerneltest.Budget(200) {
		var q products
		for range 1 + r.IntN(4) {
			typ := fewRowsTypes[r.IntN(len(fewRowsTypes))]
			m, ok := newBlockMatrix(typ, 1+r.IntN(5000), 256*(1+r.IntN(20)))
			if !ok {
				t.Fatal("too large")
			}
			m.data = make([]byte, partsOf(m.cols, panel)*m.blockPanel())
			q.now = append(q.now, projection{t: &tuned, m: m, dst: views.Tensor{D: m.cols, L: 1}})
		}
		workers := 1 + r.IntN(20)
		q.divide(workers)
		which, at := 0, 0
		for _, run := range q.runs {
			if at == q.now[which].dst.D {
				which, at = which+1, 0
			}
			if run.which != which || run.first != at || at%panel != 0 || run.cols < 1 {
				t.Fatalf("%d workers: run %v, want matrix %d from column %d on", workers, run, which, at)
			}
			at += run.cols
		}
		if which != len(q.now)-1 || at != q.now[which].dst.D {
			t.Fatalf("runs end with column %d of matrix %d", at, which)
		}
		if workers == 1 && len(q.runs) != len(q.now) {
			t.Errorf("%d runs of %d matrices for one worker", len(q.runs), len(q.now))
		}
	}
}

// Rows that do not fit go in several parts, cut between matrices if one has not more.
func TestMulExpertsInParts(t *testing.T) {
	r := kerneltest.Random(t.Name())
	const tokens, n = 30, 3
	ms := someBodies(t, 256)
	a, outputs := anyView(r, 1, 1, tokens, 256), ms[0].cols
	chosen := views.Contiguous(make([]int32, tokens*n), 1, 1, tokens, n)
	for i := range chosen.Data {
		chosen.Data[i] = int32(r.IntN(len(ms)+1)) - 1
	}
	dst, want := zeroView(1, n, tokens, outputs), zeroView(1, n, tokens, outputs)
	must(t, mulExperts(&tuned, want, a, ms, &chosen, nil))
	for _, most := range []int{1, 7, 40, 1000} {
		var r routes
		call := expertCall{t: &tuned, dst: *dst, a: *a, ms: ms, chosen: chosen}
		must(t, call.check())
		call.route(&r)
		firsts := inParts(&targets{&tuned, []views.Tensor{call.dst}, ms, nil}, call.inputs(&r), most)
		for i, first := range firsts[1:] {
			if n := first - firsts[i]; n < 1 || n > most {
				t.Fatalf("parts of %d begin with places %v", most, firsts)
			}
			_, ends := slices.BinarySearch(r.ends, first)
			if !ends && first-firsts[i] < most {
				t.Fatalf("parts of %d begin with %v, those of matrices end with %v", most, firsts, r.ends)
			}
		}
		kerneltest.MustEqualBits(t, fmt.Sprint("parts of ", most), dst.Data, want.Data)
		clear(dst.Data)
	}
}

// Where files cannot be mapped, matrices are read and checked.
func TestMatricesWithoutMapping(t *testing.T) {
	ms := someBodies(t, 256)
	var names []string
	for i := range ms {
		names = append(names, fmt.Sprint("matrix ", i))
	}
	var written bytes.Buffer
	_, err := saveMatrices(&written, names, ms)
	must(t, err)
	file := written.Bytes()
	empty := func() *matricesBody { return &matricesBody{named: map[string]*matrixBody{}, open: true} }
	a := empty()
	must(t, a.readAll(bytes.NewReader(file), int64(len(file))))
	for i, name := range names {
		if got := a.Matrix(name); !bytes.Equal(got.data, ms[i].data) {
			t.Errorf("%s differs", name)
		}
	}
	must(t, a.Close())
	file[len(file)-5] ^= 1
	a = empty()
	mustFail(t, "elements", a.readAll(bytes.NewReader(file), int64(len(file))), views.ErrFormat)
	must(t, a.Close())
	broken := brokenReaderAt{bytes.NewReader(file), 4000}
	mustFail(t, "broken", empty().readAll(broken, int64(len(file))), iotest.ErrTimeout)
}

// A matrix that is read and not mapped ends with its file.
func TestLoadWhole(t *testing.T) {
	for _, m := range someBodies(t, 256) {
		var written bytes.Buffer
		_, err := m.Save(&written)
		must(t, err)
		file := written.Bytes()
		got, err := loadWhole(iotest.HalfReader(bytes.NewReader(file)))
		must(t, err)
		if !bytes.Equal(got.data, m.data) {
			t.Error("the matrix differs")
		}
		_, err = loadWhole(bytes.NewReader(append(file, 0)))
		mustFail(t, "a byte too many", err, views.ErrFormat)
	}
}

// brokenReaderAt fails from a byte on.
type brokenReaderAt struct {
	io.ReaderAt
	from int64
}

func (r brokenReaderAt) ReadAt(x []byte, at int64) (int, error) {
	if at+int64(len(x)) > r.from {
		return 0, iotest.ErrTimeout
	}
	return r.ReaderAt.ReadAt(x, at)
}
