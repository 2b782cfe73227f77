package nn

import (
	"math"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// MaxSim scores documents against a query, with a vector for each token, as Khattab and Zaharia
// (2020, ColBERT) define it: dst_i is the sum over the query's tokens of the largest dot product
// with a token of document i.
//
//	query      [1, 1, tokens, D]
//	documents  [1, 1, Σ lens, D]: one document after another
//	lens       tokens of each document; nil is one document
//	dst        a score for each document
//
// Dot products are chains of FMAs in ascending order from +0, as in attention and in products by
// matrices; sums are 64 partial sums by the token's place mod 64. A document without tokens scores
// −Inf, a query without tokens 0, and a NaN makes each score NaN that it contributes to. dst must
// not overlap an input. Lists of other lengths are [attn.ErrLength].
func MaxSim(p *attn.Pool, dst []float32, query, documents attn.Tensor, lens []int) (err error) {
	defer views.NameFunction("nn.MaxSim", &err)
	all := [...]argument{argumentOf("documents", &documents), argumentOf("query", &query)}
	for i := range all {
		if err := all[i].Check(all[i].Name); err != nil {
			return err
		}
	}
	docs, q := &all[0], &all[1]
	if q.B != 1 || q.H != 1 || docs.B != 1 || docs.H != 1 || docs.D != q.D {
		return views.Fail(attn.ErrShape, "query is [%d %d %d %d] and documents [%d %d %d %d], want [1 1 "+
			"… D] with the same D", q.B, q.H, q.L, q.D, docs.B, docs.H, docs.L, docs.D)
	}
	s := similarities.Get().(*similarity)
	defer s.release()
	if err := s.divide(dst, all[:], docs.L, lens); err != nil {
		return err
	}
	s.docs, s.rows, s.d = *docs, q.L, q.D
	s.cpu = host
	s.cpu.ISA = isa
	s.packQuery(q)
	return s.run(p)
}

// MaxSimMatrix is [MaxSim] of documents packed once in a matrix of any format, such as I8
// ([attn.PackMatrix] with Transposed): its outputs are tokens, its inputs the D numbers of their
// vectors. Dot products follow the rules of the matrix, with Integers in integers; in F32 they have
// the bits of MaxSim. A call holds all products, query tokens × document tokens, so several
// matrices of thousands of tokens are faster than one of a million.
func MaxSimMatrix(p *attn.Pool, dst []float32, query attn.Tensor, documents *attn.Matrix,
	lens []int) (err error) {
	defer views.NameFunction("nn.MaxSimMatrix", &err)
	if documents == nil {
		return views.Fail(attn.ErrOption, "documents is nil, want a matrix")
	}
	q := argumentOf("query", &query)
	if err := q.Check(q.Name); err != nil {
		return err
	}
	batch, heads, inputs, outputs := documents.Dims()
	if q.B != 1 || q.H != 1 || batch != 1 || heads != 1 {
		return views.Fail(attn.ErrShape, "query is [%d %d %d %d] and documents [%d %d] matrices, want "+
			"[1 1 … D] and one matrix", q.B, q.H, q.L, q.D, batch, heads)
	}
	if inputs != q.D {
		return views.Fail(attn.ErrShape, "documents has %d inputs, want %d, as query.D: its outputs are "+
			"tokens, as MatrixConfig.Transposed packs rows", inputs, q.D)
	}
	s := similarities.Get().(*similarity)
	defer s.release()
	if err := s.divide(dst, []argument{q}, outputs, lens); err != nil {
		return err
	}
	s.rows, s.d, s.pitch = q.L, q.D, outputs
	s.products = grown(s.products, q.L*outputs)
	products := attn.BHLD(s.products, 1, 1, q.L, outputs)
	if err := p.MulMatrix(products, query, documents, nil); err != nil {
		return err
	}
	return s.run(p)
}

// similarity is a call of MaxSim, divided into ranges of documents.
type similarity struct {
	dst      []float32
	docs     argument
	cpu      tuning.Row
	query    []float32
	few      bool      // the query has few tokens, see packQuery
	products []float32 // the query times the matrix; empty without a matrix
	pitch    int       // row length of products, here or in maxima
	rows, d  int       // tokens of the query and their dimension
	block    int       // tokens of documents in one product
	parts    []docRange
	lens     []int
	whole    [1]int
}

// docRange is documents [from, to), and the position of their first token.
type docRange struct{ from, to, token int }

var similarities = sync.Pool{New: func() any { return new(similarity) }}

const (
	// partTokens is how many tokens of documents a part of the work has: some microseconds.
	partTokens = 4 * kernel.Block

	// inner is how many steps of a chain one kernel call computes.
	inner = 512
)

// divide checks the lists and divides documents into parts.
func (s *similarity) divide(dst []float32, inputs []argument, tokens int, lens []int) error {
	if lens == nil {
		s.whole[0] = tokens
		lens = s.whole[:]
	}
	if len(dst) != len(lens) {
		return views.Fail(attn.ErrLength, "len(dst) is %d, want a score for each document, %d", len(dst),
			len(lens))
	}
	sum := 0
	for i, n := range lens {
		if n < 0 || n > tokens-sum {
			return views.Fail(attn.ErrLength, "lens[%d] is %d, want 0 to %d, which documents has left", i, n,
				tokens-sum)
		}
		sum += n
	}
	if sum != tokens {
		return views.Fail(attn.ErrLength, "lens add up to %d, want %d as documents has", sum, tokens)
	}
	out := floatList{"dst", dst}
	for i := range inputs {
		if err := apartFrom(&inputs[i], out); err != nil {
			return err
		}
	}
	s.dst, s.lens = dst, lens
	part, token := docRange{}, 0
	for i, n := range lens {
		if token += n; token-part.token >= partTokens || i == len(lens)-1 {
			part.to = i + 1
			s.parts = append(s.parts, part)
			part = docRange{from: i + 1, token: token}
		}
	}
	return nil
}

// apartFrom makes sure that a list as output does not overlap an input.
func apartFrom(input *argument, out floatList) error {
	if input.Empty() || len(out.data) == 0 {
		return nil
	}
	a, b := input.Memory(), views.ExtentOfSlice(out.name, out.data)
	if b.Begin = operand.Address(out.data, 0); a.Overlaps(&b) {
		return views.Fail(attn.ErrOverlap, "%s overlaps %s, want separate memory", out.name, input.Name)
	}
	return nil
}

// packQuery copies the query in the layout that kernels need. Documents are read in place: a long
// query is packed as keys, 16 tokens a panel; for a short one the documents are the keys.
func (s *similarity) packQuery(q *argument) {
	if s.few = q.L <= kernel.InPlaceRows && q.D <= kernel.InPlaceDim; s.few {
		s.pitch, s.block = kernel.Block, kernel.Block
		for i := range q.L {
			s.query = append(s.query, q.Row(0, 0, i)...)
		}
		return
	}
	s.pitch, s.block = kernel.RoundUp(q.L, kernel.Panel), kernel.SplitRows
	s.query = grown(s.query, s.pitch*q.D)
	floats.PackKeys(&s.cpu, s.query, q.Data, q.SL, q.L, q.D)
}

func (s *similarity) run(p *attn.Pool) error {
	if p == nil {
		for i := range s.parts {
			s.Work(i)
		}
		return nil
	}
	return p.Run(len(s.parts), s)
}

// release keeps the memory for the next call.
func (s *similarity) release() {
	*s = similarity{query: s.query[:0], products: s.products[:0], parts: s.parts[:0]}
	similarities.Put(s)
}

// maxima is a worker's memory: the largest product of each query token so far, and the products
// with a block of document tokens.
type maxima struct {
	best, products []float32
	queue          kernel.PrefetchQueue
}

var allMaxima = sync.Pool{New: func() any { return new(maxima) }}

// Work implements attn.Worker.
func (s *similarity) Work(part int) {
	w := allMaxima.Get().(*maxima)
	w.best = grown(w.best, kernel.RoundUp(s.rows, kernel.Panel))
	r := s.parts[part]
	if len(s.products) > 0 || s.rows == 0 {
		s.scoreProducts(w, r)
	} else {
		s.scoreRows(w, r)
	}
	allMaxima.Put(w)
}

// scoreProducts scores documents whose products are computed already.
func (s *similarity) scoreProducts(w *maxima, r docRange) {
	for i := r.from; i < r.to; i++ {
		w.reset()
		s.updateBest(w.best, s.products[min(r.token, len(s.products)):], s.lens[i])
		r.token += s.lens[i]
		s.dst[i] = s.sum(w)
	}
}

// scoreRows scores documents in rows. It multiplies their tokens block by block; documents begin
// and end anywhere in a block.
func (s *similarity) scoreRows(w *maxima, r docRange) {
	at, n := 0, 0 // position in the block, which has n tokens
	left := 0     // tokens of the part after the block
	for _, l := range s.lens[r.from:r.to] {
		left += l
	}
	for i := r.from; i < r.to; i++ {
		w.reset()
		for rest := s.lens[i]; rest > 0; {
			if at == n {
				at, n = 0, min(left, s.block)
				left -= n
				s.multiply(w, r.token, n, left)
				r.token += n
			}
			tokens := min(rest, n-at)
			if s.few {
				s.updateBest(w.best, w.products[at:], tokens)
			} else {
				elements.ColumnMaxima(isa, w.best, w.products[at*s.pitch:], tokens, s.pitch)
			}
			at, rest = at+tokens, rest-tokens
		}
		s.dst[i] = s.sum(w)
	}
}

// multiply multiplies n document tokens, the first at position token, by the query, and prefetches
// some of the tokens behind them.
func (s *similarity) multiply(w *maxima, token, n, behind int) {
	docs := s.docs.Data[token*s.docs.SL:]
	inMemory := s.docs.SL == s.d && behind >= s.block
	if s.few {
		w.products = grown(w.products, s.rows*s.pitch)
		w.queue.Clear()
		w.queue.Pointer = 0
		if inMemory && s.cpu.Reads == tuning.PagedReads {
			w.queue.Pointer = operand.Address(docs, 0)
		}
		keys := floats.KeyRows{K: docs, Stride: s.docs.SL, N: n}
		floats.ScoreRows(isa, w.products, s.query, keys, s.rows, s.d, &w.queue)
		return
	}
	w.products = grown(w.products, n*s.pitch)
	rows := kernel.Sums{O: w.products, Rows: n, PStride: s.docs.SL, OStride: s.pitch}
	layout := kernel.PanelLayout{Cols: s.pitch, Stride: kernel.Panel, PanelStride: s.d * kernel.Panel}
	layout.Packed = n >= kernel.PackedRows
	if inMemory { // kernels prefetch as much as they read
		layout.After = operand.Address(docs, n*s.d)
	}
	for x := 0; x < s.d; x += inner {
		rows.P, layout.Keys, layout.Overwrite = docs[x:], min(inner, s.d-x), x == 0
		floats.Accumulate(&s.cpu, &rows, s.query[x*kernel.Panel:], &layout)
	}
}

// reset starts a new document.
func (w *maxima) reset() {
	for i := range w.best {
		w.best[i] = float32(math.Inf(-1))
	}
}

// updateBest updates the largest products with n more tokens. products has a row for each query
// token.
func (s *similarity) updateBest(best, products []float32, n int) {
	for i := 0; i < s.rows && n > 0; i++ {
		best[i] = max(best[i], attn.Max(products[i*s.pitch:][:n]))
	}
}

func (s *similarity) sum(w *maxima) float32 { return elements.Sum(isa, w.best[:s.rows]) }

// grown returns n elements with any values.
func grown(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
