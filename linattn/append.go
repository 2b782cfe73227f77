package linattn

import (
	"runtime"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// tuned says which kernels this machine has.
var tuned = tuning.Host()

// Append goes on with the sequence by n tokens: q is [1, QueryHeads, n, KeyDim], k
// [1, KeyHeads, n, KeyDim], v [1, Heads, n, ValueDim] and dst
// [1, max(Heads, QueryHeads), n, ValueDim]. decay is [1, Heads, n, 1], or with ChannelDecay
// [1, Heads, n, KeyDim]: natural logarithms of what a token leaves of the state, 0 or less. beta is
// [1, Heads, n, 1], of most models from 0 to 1. They are data and not checked: with a decay above 0
// the state grows. What the rule uses and is not given is [attn.ErrShape]; what it does not use is
// the zero Tensor, else it is [attn.ErrOption]. Inputs may repeat elements by the stride
// [attn.Broadcast], as beta does where it is 1 for all
// tokens. dst shares memory with nothing else, else it is [attn.ErrOverlap].
//
// If there is an error, nothing was written.
func (s *State) Append(p *attn.Pool, dst, q, k, v, decay, beta attn.Tensor) (err error) {
	defer views.NameFunction("linattn.State.Append", &err)
	if s.closed {
		return s.gone("the state")
	}
	states, lens := [1]*State{s}, [1]int{q.L}
	return appendStates(p, argumentsOf(dst, q, k, v, decay, beta), states[:], lens[:])
}

// AppendStates is [State.Append] of several sequences, packed one after the other, each with the
// bits that it has alone: arguments have Σ lens positions, lens nil stands for one each. A state
// that is nil, there twice, or of another Config than the first is [attn.ErrOption], a closed one
// [attn.ErrClosed]; lens of another length or sum are [attn.ErrLength].
func AppendStates(p *attn.Pool, dst, q, k, v, decay, beta attn.Tensor, states []*State,
	lens []int) (err error) {
	defer views.NameFunction("linattn.AppendStates", &err)
	return appendStates(p, argumentsOf(dst, q, k, v, decay, beta), states, lens)
}

// argumentsOf is the arguments of a call, by their names.
func argumentsOf(dst, q, k, v, decay, beta attn.Tensor) [arguments]argument {
	return [arguments]argument{argumentOf("dst", &dst), argumentOf("q", &q), argumentOf("k", &k),
		argumentOf("v", &v), argumentOf("decay", &decay), argumentOf("beta", &beta)}
}

func appendStates(p *attn.Pool, all [arguments]argument, states []*State, lens []int) error {
	j := jobs.Get().(*job)
	j.all = all
	err := j.prepare(states, lens)
	if err == nil {
		err = j.run(p)
	}
	j.put()
	return err
}

// job is a call. Its units are columns of a head of a sequence.
type job struct {
	all    [arguments]argument
	states []*State // the memory is kept

	pieces      int // of a head: units that share its columns
	pieceOf     int // and panels of each
	units       int
	unitsOfPart int
}

var jobs = sync.Pool{New: func() any { return new(job) }}

// put keeps the job for another call.
func (j *job) put() {
	clear(j.states)
	*j = job{states: j.states[:0]}
	jobs.Put(j)
}

// prepare validates the call and finds the memory that it writes. If that fails, nothing that
// anybody sees has changed.
func (j *job) prepare(states []*State, lens []int) error {
	rows := j.all[ofQ].L
	if err := checkStates(states, lens, rows); err != nil {
		return err
	}
	if len(states) == 0 {
		return j.checkNone()
	}
	if err := j.check(&states[0].layout, rows); err != nil {
		return err
	}
	at := 0
	for i, s := range states {
		s.first, s.rows = at, 1
		if lens != nil {
			s.rows = lens[i]
		}
		at += s.rows
		if err := s.makeRoom(); err != nil {
			return err
		}
	}
	j.states = append(j.states[:0], states...)
	return nil
}

// checkNone validates the arguments of a call without states, of which nothing is known.
func (j *job) checkNone() error {
	for i := range j.all {
		a := &j.all[i]
		if !a.Given() {
			continue
		}
		if err := a.Check(a.Name); err != nil {
			return err
		}
		if a.L != 0 {
			return views.Fail(attn.ErrShape, "%s.L is %d, want 0, as there are no states", a.Name, a.L)
		}
	}
	return nil
}

// makeRoom makes sure that there is memory for the rows of the call.
func (s *State) makeRoom() error {
	if s.rows == 0 {
		return nil
	}
	if err := s.fill(); err != nil {
		return err
	}
	if s.fillsChunk() {
		if err := s.matrix.prepare(); err != nil {
			return err
		}
	}
	return s.chunk.prepare()
}

// fillsChunk reports whether the call writes the matrices.
func (s *State) fillsChunk() bool { return s.length%Chunk+s.rows >= Chunk }

// partProducts is how many multiply-adds a worker takes together: some microseconds.
const partProducts = 1 << 16

// run does the work.
func (j *job) run(p *attn.Pool) error {
	if len(j.states) == 0 {
		return p.Run(0, j)
	}
	g := &j.states[0].layout
	rows := j.all[ofQ].L
	j.pieceOf = g.panels
	if p != nil {
		j.share(g)
	}
	j.pieces = (g.panels + j.pieceOf - 1) / j.pieceOf
	j.units = len(j.states) * g.Heads * j.pieces
	products := max(1, rows/len(j.states)) * g.KeyDim * j.pieceOf * kernel.Panel * (1 + g.group())
	j.unitsOfPart = max(1, partProducts/products)
	parts := (j.units + j.unitsOfPart - 1) / j.unitsOfPart
	if rows == 0 {
		parts = 0
	}
	if err := j.own(p, parts); err != nil {
		return err
	}
	if err := p.Run(parts, j); err != nil {
		return err
	}
	for _, s := range j.states {
		if j.pieces > 1 {
			j.remember(s)
		}
		s.length += s.rows
		runtime.KeepAlive(s)
	}
	return nil
}

// own gives states memory of their own, unless the pool is closed.
func (j *job) own(p *attn.Pool, parts int) error {
	if p != nil {
		if err := p.Run(0, j); err != nil {
			return err
		}
	}
	for _, s := range j.states {
		if s.rows == 0 {
			continue
		}
		if s.fillsChunk() {
			s.matrix.commit(true)
		}
		s.chunk.commit(s.length%Chunk > 0)
	}
	return nil
}

// fewestPanels is how many panels of a head a unit has at least where heads are shared: each unit
// multiplies keys and queries of its own.
const fewestPanels = 2

// share divides heads among units if there are fewer than workers might take.
func (j *job) share(g *layout) {
	heads := 0
	for _, s := range j.states {
		if s.rows > 0 {
			heads += g.Heads
		}
	}
	workers := runtime.GOMAXPROCS(0)
	if heads == 0 || heads >= 2*workers || heads%workers == 0 {
		return
	}
	wanted := (2*workers + heads - 1) / heads
	j.pieceOf = max(fewestPanels, (g.panels+wanted-1)/wanted)
}

// Work implements attn.Worker.
func (j *job) Work(part int) {
	g := &j.states[0].layout
	w := takeWork(g)
	end := min((part+1)*j.unitsOfPart, j.units)
	for u := part * j.unitsOfPart; u < end; u++ {
		s, h, from := j.unitAt(u)
		var next []float32
		if u+1 < j.units {
			s, h, from := j.unitAt(u + 1)
			m := s.head(h)
			next = m.panel(s, from)
		}
		j.unit(w, s, h, from, min(from+j.pieceOf, g.panels), next)
	}
	w.put()
}

// unitAt is a unit's state and head, and the first of its panels.
func (j *job) unitAt(u int) (s *State, h, from int) {
	rest := u / j.pieces
	s = j.states[rest/j.states[0].Heads]
	return s, rest % s.Heads, u % j.pieces * j.pieceOf
}
