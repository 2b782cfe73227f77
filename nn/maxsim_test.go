package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/sanitize"
)

// maxSimByDefinition is one multiply-add at a time.
func maxSimByDefinition(query, documents attn.Tensor, lens []int) (scores []float32) {
	token := 0
	for _, n := range lens {
		var best []float32
		for i := range query.L {
			most := float32(math.Inf(-1))
			for j := range n {
				sum := float32(0)
				for x, k := range documents.Row(0, 0, token+j) {
					sum = f32.FMA(query.Row(0, 0, i)[x], k, sum)
				}
				most = max(most, sum)
			}
			best = append(best, most)
		}
		var lanes [64]float32
		for i, x := range best {
			lanes[i%64] += x
		}
		scores, token = append(scores, f32.Fold(lanes[:])), token+n
	}
	return scores
}

// TestMaxSim compares documents of all lengths with the definition, in views with gaps, too.
func TestMaxSim(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		pools := []*attn.Pool{nil, attn.NewPool(1), attn.NewPool(2)}
		for _, lens := range [][]int{{1}, {0, 3, 0, 64, 1}, {63, 65, 2, 0}, {130, 7, 1, 1, 200}, {}} {
			tokens := 0
			for _, n := range lens {
				tokens += n
			}
			for _, shape := range [][2]int{{1, 8}, {5, 33}, {32, 128}, {70, 3}, {4, 1100}} {
				q, d := shape[0], shape[1]
				if q*d*tokens > 1<<20 {
					continue
				}
				query, all := randomTensor(r, 1, 1, q, d+3), randomTensor(r, 1, 1, tokens+1, d+2)
				query = attn.Rows(query.Data, 1, q, 1, d, d+3)
				documents := attn.Rows(all.Data, 1, tokens, 1, d, d+2)
				want := maxSimByDefinition(query, documents, lens)
				for i, p := range pools {
					got := make([]float32, len(lens))
					must(t, MaxSim(p, got, query, documents, lens))
					sameBits(t, fmt.Sprintf("%d tokens by %v of %d, pool %d", q, lens, d, i), got, want)
				}
				if tokens == 0 {
					continue // which no matrix has
				}
				matrix, err := attn.PackMatrix(documents, attn.MatrixConfig{Transposed: true})
				must(t, err)
				got := make([]float32, len(lens))
				must(t, MaxSimMatrix(pools[2], got, query, matrix, lens))
				sameBits(t, "of a matrix", got, want)
			}
		}
		for _, p := range pools {
			must(t, p.Close())
		}
	})
}

// TestMaxSimOfIntegers scores documents of 8 bits: products equal the matrix's.
func TestMaxSimOfIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	query, documents := randomTensor(r, 1, 1, 9, 64), randomTensor(r, 1, 1, 100, 64)
	lens := []int{40, 60}
	exact := maxSimByDefinition(query, documents, lens)
	for _, integers := range []bool{false, true} {
		matrix, err := attn.PackMatrix(documents,
			attn.MatrixConfig{Format: attn.I8, Transposed: true, Integers: integers})
		must(t, err)
		products := zeros(1, 1, 9, 100)
		must(t, (*attn.Pool)(nil).MulMatrix(products, query, matrix, nil))
		want, got := make([]float32, 2), make([]float32, 2)
		for i := range 9 {
			row := products.Row(0, 0, i)
			want[0], want[1] = want[0]+attn.Max(row[:40]), want[1]+attn.Max(row[40:])
		}
		must(t, MaxSimMatrix(nil, got, query, matrix, lens))
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-3 || math.Abs(float64(got[i]/exact[i]-1)) > 0.02 {
				t.Errorf("integers %v: document %d scores %v, want %v, near %v", integers, i, got[i], want[i],
					exact[i])
			}
		}
	}
}

// TestMaxSimOfOddNumbers has NaN, documents and queries without tokens, and all as one document.
func TestMaxSimOfOddNumbers(t *testing.T) {
	query, documents := zeros(1, 1, 2, 4), zeros(1, 1, 5, 4)
	for i := range documents.Data {
		documents.Data[i] = float32(-i)
	}
	for i := range query.Data {
		query.Data[i] = 1
	}
	documents.Data[5] = float32(math.NaN())
	got := make([]float32, 4)
	must(t, MaxSim(nil, got, query, documents, []int{1, 1, 0, 3}))
	if got[0] != -12 || got[1] == got[1] || !math.IsInf(float64(got[2]), -1) || got[3] != -76 {
		t.Errorf("scores %v, want -12, NaN, -Inf and -76", got)
	}
	must(t, MaxSim(nil, got, zeros(1, 1, 0, 4), documents, []int{1, 1, 0, 3}))
	if !slices.Equal(got, make([]float32, 4)) {
		t.Errorf("scores for no tokens %v, want zeros", got)
	}
	must(t, MaxSim(nil, got[:1], attn.BHLD(query.Data, 1, 1, 2, 4),
		attn.BHLD(documents.Data[8:], 1, 1, 3, 4), nil))
	if got[0] != -76 {
		t.Errorf("one document scores %v, want -76", got[0])
	}
}

// TestMaxSimOfRepeatedTokens has one document's token many times, for queries of a few tokens and
// of more.
func TestMaxSimOfRepeatedTokens(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		token := randomTensor(rand.New(rand.NewPCG(6, 6)), 1, 1, 1, 20)
		for _, q := range []int{3, 40} {
			query := randomTensor(rand.New(rand.NewPCG(7, 7)), 1, 1, q, 20)
			want, got := make([]float32, 1), make([]float32, 2)
			must(t, MaxSim(nil, want, query, token, nil))
			many := attn.Tensor{Data: token.Data, B: 1, H: 1, L: 90, D: 20, SB: 1, SH: 1,
				SL: attn.Broadcast}
			must(t, MaxSim(nil, got, query, many, []int{70, 20}))
			sameBits(t, "repeated", got, []float32{want[0], want[0]})
		}
	})
}

// TestMaxSimMisuse names arguments, and writes nothing.
func TestMaxSimMisuse(t *testing.T) {
	query, documents := zeros(1, 1, 2, 4), zeros(1, 1, 5, 4)
	matrix, err := attn.PackMatrix(documents, attn.MatrixConfig{Transposed: true})
	must(t, err)
	two := zeros(2, 1, 5, 4)
	batch, err := attn.PackMatrix(two, attn.MatrixConfig{Transposed: true})
	must(t, err)
	rows, err := attn.PackMatrix(documents, attn.MatrixConfig{})
	must(t, err)
	closed := attn.NewPool(2)
	must(t, closed.Close())
	dst := []float32{7, 7}
	lens := []int{2, 3}
	for _, c := range []struct {
		err, kind error
		text      string
	}{
		{MaxSim(nil, dst[:1], query, documents, lens), attn.ErrLength, "len(dst) is 1, want a score"},
		{MaxSim(nil, dst, query, documents, nil), attn.ErrLength, "each document, 1"},
		{MaxSim(nil, dst, query, documents, []int{2, 4}), attn.ErrLength, "lens[1] is 4, want 0 to 3"},
		{MaxSim(nil, dst, query, documents, []int{-1, 6}), attn.ErrLength, "lens[0] is -1"},
		{MaxSim(nil, dst, query, documents, []int{2, 2}), attn.ErrLength, "add up to 4, want 5"},
		{MaxSim(nil, dst, zeros(1, 1, 2, 5), documents, lens), attn.ErrShape, "with the same D"},
		{MaxSim(nil, dst, two, documents, lens), attn.ErrShape, "query is [2 1 5 4]"},
		{MaxSim(nil, dst, attn.Tensor{L: 1, D: 4, B: 1, H: 1}, documents, lens), attn.ErrLength,
			"len(query.Data)"},
		{MaxSim(nil, documents.Data[:2], query, documents, lens), attn.ErrOverlap,
			"dst overlaps documents"},
		{MaxSim(nil, query.Data[:2], query, documents, lens), attn.ErrOverlap, "dst overlaps query"},
		{MaxSim(closed, dst, query, documents, lens), attn.ErrClosed, ""},
		{MaxSimMatrix(nil, dst, query, nil, lens), attn.ErrOption, "documents is nil"},
		{MaxSimMatrix(nil, dst, query, batch, lens), attn.ErrShape, "want [1 1 … D] and one matrix"},
		{MaxSimMatrix(nil, dst, query, rows, lens), attn.ErrShape,
			"documents has 5 inputs, want 4, as query.D: its outputs are tokens, as " +
				"MatrixConfig.Transposed packs"},
		{MaxSimMatrix(nil, dst, attn.Tensor{L: -1}, matrix, lens), attn.ErrShape, "query"},
		{MaxSimMatrix(nil, dst, query, matrix, []int{1, 1}), attn.ErrLength, "add up to 2, want 5"},
		{MaxSimMatrix(closed, dst, query, matrix, lens), attn.ErrClosed, ""},
	} {
		mustFail(t, c.err, c.kind, c.text)
	}
	if dst[0] != 7 || dst[1] != 7 {
		t.Errorf("dst is %v after errors, want 7s", dst)
	}
}

func TestMaxSimAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	query, documents := randomTensor(r, 1, 1, 8, 32), randomTensor(r, 1, 1, 900, 32)
	dst, lens := make([]float32, 3), []int{300, 200, 400}
	p := attn.NewPool(2)
	run := func() { must(t, MaxSim(p, dst, query, documents, lens)) }
	run()
	if n := testing.AllocsPerRun(20, run); n >= 1 && !sanitize.Enabled {
		t.Errorf("%v allocations, want none", n)
	}
	must(t, p.Close())
}

// BenchmarkMaxSim measures a query of 32 tokens and documents of 180, and the product alone.
func BenchmarkMaxSim(b *testing.B) {
	const tokens, d, each, count = 32, 128, 180, 1000
	r := rand.New(rand.NewPCG(1, 1))
	query, documents := randomTensor(r, 1, 1, tokens, d), randomTensor(r, 1, 1, each*count, d)
	dst, lens := make([]float32, count), slices.Repeat([]int{each}, count)
	report := func(b *testing.B, n int) {
		b.ReportMetric(float64(b.N)*float64(tokens*d*n)/float64(b.Elapsed().Nanoseconds()), "GMAC/s")
	}
	const part = 20 // documents of a matrix
	for _, n := range []int{part, count} {
		b.Run(fmt.Sprintf("rows/documents=%d", n), func(b *testing.B) {
			some := attn.BHLD(documents.Data[:n*each*d], 1, 1, n*each, d)
			for b.Loop() {
				must(b, MaxSim(nil, dst[:n], query, some, lens[:n]))
			}
			report(b, each*n)
		})
	}
	few := attn.BHLD(documents.Data[:part*each*d], 1, 1, part*each, d)
	for _, format := range []attn.Format{attn.F32, attn.I8} {
		m, err := attn.PackMatrix(few,
			attn.MatrixConfig{Format: format, Transposed: true, Integers: format == attn.I8})
		must(b, err)
		b.Run("matrix/"+format.String(), func(b *testing.B) {
			for b.Loop() {
				must(b, MaxSimMatrix(nil, dst[:part], query, m, lens[:part]))
			}
			report(b, each*part)
		})
		products := zeros(1, 1, tokens, each*part)
		b.Run("product/"+format.String(), func(b *testing.B) {
			for b.Loop() {
				must(b, (*attn.Pool)(nil).MulMatrix(products, query, m, nil))
			}
			report(b, each*part)
		})
	}
}
