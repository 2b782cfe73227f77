package matmul

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// Few rows read the panels of a matrix sequentially if it comes from memory.
func TestMatrixReadsSequentially(t *testing.T) {
	m, err := PackMatrix(&tuned, zeroView(1, 1, 32, panel), Config{})
	kerneltest.Must(t, err)
	for _, c := range []struct {
		inOrder     bool
		rows, bytes int
		want        bool
	}{
		{true, 1, 0, true},
		{true, kernel.InPlaceRows, 0, true},
		{true, kernel.InPlaceRows + 1, 0, false},
		{false, 1, 0, false},
		{true, 1, len(m.data), false},
	} {
		setReads(t, c.inOrder, c.bytes)
		p := projection{inputs: &preparation{t: &tuned}, dst: *zeroView(1, 1, c.rows, panel), m: m}
		if got := p.panelsSequential(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// Few rows by a transposed right side from memory pack long runs of its rows.
func TestPackedAtOnce(t *testing.T) {
	setReads(t, false, 1<<10)
	for _, c := range []struct {
		transposed                     bool
		rows, inner, cols, atOnce, run int
	}{
		{true, 1, 2048, 64, panel, longRuns},
		{true, kernel.InPlaceRows, 2048, 64, panel, longRuns},
		{true, kernel.InPlaceRows + 1, 2048, 64, packedCols, Inner},
		{false, 1, 2048, 64, packedCols, Inner},
		{true, 1, 2048, 1, packedCols, Inner},
		{true, 1, 2000, 64, packedCols, Inner},
	} {
		r := kerneltest.Random(t.Name())
		a, b := anyView(r, 1, 1, c.rows, c.inner), anyView(r, 1, 1, c.inner, c.cols)
		if c.transposed {
			b = anyView(r, 1, 1, c.cols, c.inner)
		}
		dst := zeroView(1, 1, c.rows, c.cols)
		p := multiplication{t: &tuned, dst: *dst, a: *a, b: *b, transposed: c.transposed}
		if cols, run := p.packedAtOnce(); cols != c.atOnce || run != c.run {
			t.Errorf("%+v: %d columns, %d inner steps", c, cols, run)
		}
		kerneltest.Must(t, MatMul(&tuned, dst, a, b, c.transposed))
		for i, got := range dst.Data {
			var want float32
			for k, e := range a.Data[i/c.cols*c.inner:][:c.inner] {
				at := k*c.cols + i%c.cols
				if c.transposed {
					at = i%c.cols*c.inner + k
				}
				want = f32.FMA(e, b.Data[at], want)
			}
			if got != want {
				t.Fatalf("%+v: element %d is %v, want %v", c, i, got, want)
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
		a := anyView(r, c.b, c.h, c.rows, Inner+3)
		right := anyView(r, c.rightB, c.rightH, Inner+3, c.cols)
		multiplied := func(l2 int, gathers bool) *views.Tensor {
			row.L2 = l2
			kerneltest.UseTuning(t, row)
			dst := zeroView(c.b, c.h, c.rows, c.cols) // heads side by side
			dst.SB, dst.SH, dst.SL = c.rows*c.h*c.cols, c.cols, c.h*c.cols
			p := multiplication{t: &tuned, dst: *dst, a: *a, b: *right}
			kerneltest.Must(t, p.check())
			if p.partition(1); p.gathered != gathers {
				t.Fatalf("%+v: gathers %t with an L2 cache of %d bytes", c, p.gathered, l2)
			}
			kerneltest.Must(t, MatMul(&tuned, dst, a, right, false))
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
		p := projection{inputs: &preparation{t: &tuned}, dst: views.Tensor{B: 1, H: 1, L: c.rows,
			D: c.cols},
			m: &Matrix{inner: c.inner, cols: c.cols}}
		p.partition(c.workers)
		if p.tasks() != c.units || p.cols != c.width {
			t.Errorf("%+v: %d units of %d columns", c, p.tasks(), p.cols)
		}
	}
}

// A worker prefetches what it reads next: the same columns' next inner steps, for the next rows
// from the beginning, then the next columns.
func TestMatrixPrefetchesWhatFollows(t *testing.T) {
	m, err := PackMatrix(&tuned, zeroView(1, 1, 2*Inner+5, 2*Cols+20), Config{})
	kerneltest.Must(t, err)
	defer m.Close()
	for _, reads := range []tuning.Reads{tuning.QueuedReads, tuning.PagedReads,
		tuning.SequentialReads} {
		kerneltest.ReadingAs(t, reads)
		for _, rows := range []int{kernel.InPlaceRows, kernel.InPlaceRows + 1, Rows, Rows + 1} {
			p := projection{inputs: &preparation{t: &tuned}, dst: *zeroView(1, 1, rows, m.cols), m: m}
			p.partition(1)
			var read, prefetched []uintptr
			for i := range p.tasks() {
				u := p.block(i)
				for k := 0; k < m.inner; k += Inner {
					part, _ := m.floatPanels(&tuned, u.b, u.h, k, u.first, u.Cols)
					read, prefetched = append(read, operand.Address(part, 0)), append(prefetched, p.after(&u, k))
				}
			}
			for i, got := range prefetched {
				want := read[(i+1)%len(read)]
				if rows <= kernel.InPlaceRows || reads == tuning.PagedReads && rows < 48 {
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

// Where two and three rows read one packed panel after another, few rows read packed panels of much
// memory in order.
func TestMatrixReadsOnePanel(t *testing.T) {
	setReads(t, false, 0)
	m, err := PackMatrix(&tuned, zeroView(1, 1, 32, panel), Config{})
	kerneltest.Must(t, err)
	for _, one := range []bool{false, true} {
		tuned.OnePanel = one
		p := projection{inputs: &preparation{t: &tuned}, dst: *zeroView(1, 1, 2, panel), m: m}
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
	m, err := PackMatrix(&tuned, zeroView(1, 1, 32, panel), Config{})
	kerneltest.Must(t, err)
	_, got := m.floatPanels(&tuned, 0, 0, 0, 0, panel)
	if got.PrefetchOne != 1000 || got.PrefetchFew != 2300 {
		t.Errorf("a matrix: %d and %d bytes ahead", got.PrefetchOne, got.PrefetchFew)
	}
}

// The time of decoding counts where work is shared among workers: for few rows it is most of the
// time, for many little of it.
func TestDecodingCounts(t *testing.T) {
	const inputs, outputs = 512, 1024
	data := make([]byte, outputs*inputs/256*blocks.Q4_K.Traits().Bytes)
	var costs [2][2]float64 // of few and many rows, in integers and not
	for i, integers := range []bool{true, false} {
		m, err := PackBlocks(data, blocks.Q4_K, outputs, inputs, Config{Integers: integers})
		kerneltest.Must(t, err)
		for j, rows := range []int{1, WidenedRows} {
			p := projection{inputs: &preparation{t: &tuned}, dst: *zeroView(1, 1, rows, outputs), m: m}
			costs[j][i] = p.cost()
		}
		kerneltest.Must(t, m.Close())
	}
	if few := costs[0][1] / costs[0][0]; few < 4 {
		t.Errorf("one row takes %.2f times as long as in integers, want 4 at least", few)
	}
	if many := costs[1][1] / costs[1][0]; many <= 1 || many > 1.1 {
		t.Errorf("%d rows take %.2f times as long, want 1 to 1.1", WidenedRows, many)
	}
}
