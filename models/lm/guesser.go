package lm

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/nn"
)

// guesser guesses the next tokens of jobs with the model's own layer for further tokens, as drafter
// does with a second model. After the first guess of a chain the layer reads its own rows.
type guesser struct {
	runner
	layer *furtherLayer
	most  int // most guesses at a time
	pace  pace
	made  int // guesses so far
	// in tests, changes guess i of a job
	change func(j *job, i int, token int32) int32

	// of one call
	all          []float32 // the model's rows of a step, normed
	pieces       []piece
	rows, inputs []float32 // of pieces: the rows before their tokens, and what join reads
	jobs, whose  []*job    // all, and of each piece
	lens         []int     // of each job: pairs of tokens that are no guesses
}

// pairs is what the layer keeps of a sequence: keys and values, each from a row of the model and
// the token after it.
type pairs struct {
	first int // position of the row of the first pair
	kept  *attn.Sequence
	rows  []float32 // the model's next rows, normed, whose tokens were not known
}

func newGuesser(e *engine, s *settings) (*guesser, error) {
	g := &guesser{layer: e.model.further, most: min(s.guesses, s.chunk-1)}
	if g.most < 1 {
		return nil, fmt.Errorf("%w: Options.Guesses is %d and Options.Chunk %d, want at least 1 and 2",
			attn.ErrOption, s.guesses, s.chunk)
	}
	g.runner = runner{model: g.layer.model, pool: e.pool, cache: pairCache{e.pages}}
	g.pace = pace{most: g.most, steady: s.steady}
	return g, nil
}

// guess sets at most so many guesses for each job that decodes, as long as the job may have one
// token more than these.
func (g *guesser) guess(jobs []*job, most int) error {
	g.err = nil
	g.begin(jobs, most)
	if len(g.pieces) == 0 {
		return nil
	}
	g.pass()
	g.lens = g.lens[:0]
	for _, j := range g.jobs {
		x := j.seq.(paged).pairs
		g.lens, x.rows = append(g.lens, x.kept.Len()), x.rows[:0]
	}
	for i := 0; i < most && len(g.pieces) > 0 && g.err == nil; i++ {
		g.choose(i)
		if g.chain(); i+1 < most && len(g.pieces) > 0 {
			g.pass()
		}
	}
	for i, j := range g.jobs {
		g.try(j.seq.(paged).pairs.kept.Truncate(g.lens[i]))
	}
	return g.err
}

// mostRows bounds the rows that a sequence keeps while nothing is guessed.
const mostRows = 32

// begin makes pieces of the rows that sequences keep and the tokens after them.
func (g *guesser) begin(jobs []*job, most int) {
	g.clear()
	for _, j := range jobs {
		if !j.decodes() {
			continue
		}
		x := j.seq.(paged).pairs
		n, at := len(x.rows)/g.Dim, x.next()
		guesses := most > 0 && !j.alone && j.mayGuess()
		if n == 0 || at+n != len(j.tokens)-1 || !guesses && n < mostRows {
			continue
		}
		g.add(j, j.tokens[at+1:], x.rows)
		g.jobs = append(g.jobs, j)
	}
}

// mayGuess reports whether a job may have a token more than its tokens and guesses.
func (j *job) mayGuess() bool { return len(j.guesses) < j.limit-len(j.tokens)-1 }

func (g *guesser) clear() {
	clear(g.pieces)
	clear(g.whose)
	clear(g.jobs)
	g.pieces, g.whose, g.jobs, g.rows = g.pieces[:0], g.whose[:0], g.jobs[:0], g.rows[:0]
}

func (g *guesser) add(j *job, tokens []int32, rows []float32) {
	g.pieces, g.whose = append(g.pieces, piece{seq: j.seq, tokens: tokens}), append(g.whose, j)
	g.rows = append(g.rows, rows...)
}

// choose computes the logits after the last token of each piece and guesses the next one.
func (g *guesser) choose(i int) {
	g.last = g.last[:0]
	end := 0
	for _, p := range g.pieces {
		end += len(p.tokens) * g.Dim
		g.last = append(g.last, g.x[end-g.Dim:end]...)
	}
	g.multiply(g.last, product{&g.logits, &g.head})
	for at, j := range g.whose {
		token := int32(argMax(g.logits[at*g.Vocab:][:g.Vocab]))
		if g.change != nil {
			token = g.change(j, i, token)
		}
		j.guesses, g.made = append(j.guesses, token), g.made+1
	}
}

// chain makes pieces of the last guesses and the layer's own rows before them.
func (g *guesser) chain() {
	n := 0
	g.rows = g.rows[:0]
	for at, j := range g.whose {
		if j.mayGuess() {
			g.pieces[n], g.whose[n] = piece{seq: j.seq, tokens: j.guesses[len(j.guesses)-1:]}, j
			g.rows = append(g.rows, g.last[at*g.Dim:][:g.Dim]...)
			n++
		}
	}
	g.pieces, g.whose = g.pieces[:n], g.whose[:n]
}

// pass runs the pieces through the layer, whose rows it norms.
func (g *guesser) pass() {
	g.tokens, g.positions = g.tokens[:0], g.positions[:0]
	for _, p := range g.pieces {
		at := p.seq.(paged).pairs.next()
		for i, token := range p.tokens {
			g.tokens, g.positions = append(g.tokens, token), append(g.positions, int32(at+i))
		}
	}
	n, d, epsilon := len(g.tokens), g.Dim, float32(g.Epsilon)
	g.x, g.inputs = resize(g.x, n*d), resize(g.inputs, 2*n*d)
	g.try(g.pool.Run((n+embeddedRows-1)/embeddedRows, (*embedder)(&g.runner)))
	g.try(nn.RMSNorm(g.pool, attn.Rows(g.inputs, 1, n, 1, d, 2*d), rowsOf(g.x, d), g.layer.tokenNorm,
		epsilon))
	g.try(nn.RMSNorm(g.pool, attn.Rows(g.inputs[d:], 1, n, 1, d, 2*d), rowsOf(g.rows, d),
		g.layer.rowNorm, epsilon))
	g.multiply(g.inputs, product{&g.x, &g.layer.join})
	g.normRows(&g.normed, g.x, g.layers[0].attentionNorm)
	g.attention(0, g.pieces)
	g.feedForward(0)
	g.normRows(&g.x, g.x, g.norm)
}

// follow gives sequences the model's rows of a step. Those of prompts, whose next tokens are known,
// go through the layer at once.
func (g *guesser) follow(m *runner, b *batch) error {
	g.err = nil
	g.normRows(&g.all, m.x, m.norm)
	g.clear()
	rows := g.all
	for i, j := range b.jobs {
		p, x := b.pieces[i], j.seq.(paged).pairs
		n := len(p.tokens) * g.Dim
		x.add(j.seq.length()-len(p.tokens), rows[:n], g.Dim)
		rows = rows[n:]
		at := x.next()
		if end := min(at+len(x.rows)/g.Dim, len(j.tokens)-1); !j.decodes() && end > at {
			g.add(j, j.tokens[at+1:end+1], x.rows[:(end-at)*g.Dim])
		}
	}
	if len(g.pieces) > 0 {
		g.pass()
	}
	for i, p := range g.pieces {
		x := g.whose[i].seq.(paged).pairs
		x.rows = slices.Clone(x.rows[len(p.tokens)*g.Dim:]) // prompts have many, answers few
	}
	return g.err
}

// next returns the position of the row of the next pair.
func (p *pairs) next() int { return p.first + p.kept.Len() }

// add keeps the rows of tokens from position at on. Rows that it has already come again where
// states went back.
func (p *pairs) add(at int, rows []float32, dim int) {
	end := p.next() + len(p.rows)/dim
	if at > end { // of tokens that the layer did not see
		_ = p.kept.Truncate(0) // within its tokens, so that it cannot fail
		p.first, p.rows, end = at, p.rows[:0], at
	}
	p.rows = append(p.rows, rows[min((end-at)*dim, len(rows)):]...)
}

// back drops what belongs to tokens from n on.
func (p *pairs) back(n, dim int) {
	if left := n - p.next(); left >= 0 {
		p.rows = p.rows[:min(left*dim, len(p.rows))]
		return
	}
	_ = p.kept.Truncate(max(n-p.first, 0)) // within its tokens, so that it cannot fail
	p.first, p.rows = min(p.first, n), p.rows[:0]
}

// fork returns what belongs to the first n tokens, for another sequence.
func (p *pairs) fork(n, dim int) *pairs {
	f := &pairs{p.first, p.kept.Fork(), slices.Clone(p.rows)}
	f.back(n, dim)
	return f
}

// pairCache is the cache of the layer.
type pairCache struct{ *pages }

func (c pairCache) step(_ int, dst, q, k, v attn.Tensor, pieces []piece) error {
	return c.attend(ofPairs, dst, q, k, v, pieces)
}
