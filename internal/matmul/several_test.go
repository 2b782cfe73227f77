package matmul

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/views"
)

// Rows that do not fit go in several parts.
func TestMulMatricesInParts(t *testing.T) {
	ms := someBodies(t, 256)
	a := anyView(kerneltest.Random("a"), 1, 2, 7, 256)
	want, got := make([]views.Tensor, len(ms)), make([]views.Tensor, len(ms))
	for i, m := range ms {
		want[i], got[i] = *zeroView(1, 2, 7, m.cols), *zeroView(1, 2, 7, m.cols)
		kerneltest.Must(t, m.MatMul(&tuned, &want[i], a, nil))
	}
	inParts(&targets{got, ms, nil}, inputsOf(&tuned, *a, ms), 3)
	for i := range ms {
		kerneltest.MustEqualBits(t, fmt.Sprint(i), got[i].Data, want[i].Data)
	}
}

// inParts computes products of at most some rows at a time, and returns the first row of each part.
func inParts(q *targets, x preparation, most int) (firsts []int) {
	w, ok := new(Memory), false
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
		q := products{inputs: preparation{t: &tuned, a: views.Tensor{D: inner}}}
		var times [][]int // that rows of panels are computed
		for range 1 + r.IntN(3) {
			m := &Matrix{inner: inner, cols: 1 + r.IntN(1000)}
			q.now = append(q.now, projection{inputs: &preparation{t: &tuned}, m: m, dst: views.Tensor{B: 1,
				H: 1, L: rows, D: m.cols}})
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
			q.now = append(q.now, projection{inputs: &preparation{t: &tuned}, m: m,
				dst: views.Tensor{D: m.cols, L: 1}})
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
