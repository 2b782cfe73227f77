package linattn

import (
	"runtime"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// tuned is the tuning of this CPU.
var tuned = tuning.Host()

// Append appends n tokens to the sequence and writes their outputs to dst:
//
//	q      [1, QueryHeads, n, KeyDim]
//	k      [1, KeyHeads, n, KeyDim], with ReadKeys [1, KeyHeads, n, 2·KeyDim]
//	v      [1, Heads, n, ValueDim]
//	decay  [1, Heads, n, 1], with ChannelDecay [1, Heads, n, KeyDim]
//	beta   [1, Heads, n, 1]
//	dst    [1, max(Heads, QueryHeads), n, ValueDim]
//
// decay is the natural logarithm of the factor that a token multiplies the state by, 0 or less;
// beta is between 0 and 1 in most models. Their values are not checked: a decay above 0 makes the
// state grow. An argument that Config.Rule uses must be given, else [attn.ErrShape]; one that it
// does not use must be the zero Tensor, else [attn.ErrOption]. Inputs may repeat elements by the
// stride [attn.Broadcast], such as a beta of 1 for all tokens. dst must not overlap an input, else
// [attn.ErrOverlap].
//
// On an error nothing is written.
func (s *State) Append(p *attn.Pool, dst, q, k, v, decay, beta attn.Tensor) (err error) {
	defer views.NameFunction("linattn.State.Append", &err)
	if s.closed {
		return s.closedError("the state")
	}
	states, lens := [1]*State{s}, [1]int{q.L}
	return appendStates(p, argumentsOf(dst, q, k, v, decay, beta), states[:], lens[:])
}

// AppendStates is [State.Append] for several sequences packed end to end. lens has the number of
// tokens of each; nil means one token each. Each sequence gets the same bits as alone. A state that
// is nil, listed twice, or of another Config than the first is [attn.ErrOption], a closed one
// [attn.ErrClosed]; lens of another length or sum are [attn.ErrLength].
func AppendStates(p *attn.Pool, dst, q, k, v, decay, beta attn.Tensor, states []*State,
	lens []int) (err error) {
	defer views.NameFunction("linattn.AppendStates", &err)
	return appendStates(p, argumentsOf(dst, q, k, v, decay, beta), states, lens)
}

// argumentsOf returns the named arguments of a call.
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

// job is one call. A unit of its work is a range of panels of one head of one sequence.
type job struct {
	all    [arguments]argument
	states []*State // put keeps the array for the next call

	pieces      int // units of a head
	pieceOf     int // panels of a unit
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

// prepare validates the call and allocates the memory that it writes to. On an error nothing
// visible has changed.
func (j *job) prepare(states []*State, lens []int) error {
	rows := j.all[argQ].L
	if err := checkStates(states, lens, rows); err != nil {
		return err
	}
	if len(states) == 0 {
		return j.checkWithoutStates()
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

// checkWithoutStates validates the arguments of a call without states: without a Config only L is
// known, 0.
func (j *job) checkWithoutStates() error {
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

// makeRoom allocates the memory that the call writes to.
func (s *State) makeRoom() error {
	if s.rows == 0 {
		return nil
	}
	if err := s.fillZeros(); err != nil {
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

// partProducts is how many multiply-adds a part of the work has: some microseconds.
const partProducts = 1 << 16

// run divides the work into units, runs them and advances the states.
func (j *job) run(p *attn.Pool) error {
	if len(j.states) == 0 {
		return p.Run(0, j)
	}
	g := &j.states[0].layout
	rows := j.all[argQ].L
	j.pieceOf = g.panels
	if p != nil {
		j.splitHeads(g)
	}
	j.pieces = (g.panels + j.pieceOf - 1) / j.pieceOf
	j.units = len(j.states) * g.Heads * j.pieces
	products := max(1, rows/len(j.states)) * g.KeyDim * j.pieceOf * kernel.Panel * (1 + g.group())
	j.unitsOfPart = max(1, partProducts/products)
	parts := (j.units + j.unitsOfPart - 1) / j.unitsOfPart
	if rows == 0 {
		parts = 0
	}
	if err := j.ownMemory(p, parts); err != nil {
		return err
	}
	if err := p.Run(parts, j); err != nil {
		return err
	}
	for _, s := range j.states {
		if j.pieces > 1 {
			j.storeChunk(s)
		}
		s.length += s.rows
		runtime.KeepAlive(s)
	}
	return nil
}

// ownMemory unshares the memory that the call writes to. A closed pool is an error, and nothing
// changes.
func (j *job) ownMemory(p *attn.Pool, parts int) error {
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

// fewestPanels is the least number of panels of a unit of a split head: each unit repeats the
// products of keys and queries.
const fewestPanels = 2

// splitHeads splits heads into several units if there are too few heads to keep all workers busy.
func (j *job) splitHeads(g *layout) {
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
	w := getWork(g)
	end := min((part+1)*j.unitsOfPart, j.units)
	for u := part * j.unitsOfPart; u < end; u++ {
		s, h, from := j.unitAt(u)
		var next []float32
		if u+1 < j.units {
			s, h, from := j.unitAt(u + 1)
			m := s.head(h)
			next = m.panel(s, from)
		}
		j.runUnit(w, s, h, from, min(from+j.pieceOf, g.panels), next)
	}
	w.put()
}

// unitAt returns the state, the head and the first panel of unit u.
func (j *job) unitAt(u int) (s *State, h, from int) {
	rest := u / j.pieces
	s = j.states[rest/j.states[0].Heads]
	return s, rest % s.Heads, u % j.pieces * j.pieceOf
}
