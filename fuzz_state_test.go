package attn

import (
	"errors"
	"testing"
)

// statePlay is a sequence of operations on a state which has seen the first
// keys of a call.
type statePlay struct {
	*testing.T
	*trial
	call  *stateCase
	state *State
}

// FuzzState: whatever brought keys to a state, its result has the bits of one
// call over those keys, and what fails changes nothing.
func FuzzState(f *testing.F) {
	fuzzTrials(f, func(t *testing.T, c *trial) {
		c.kind = randomKind(c.Rand)
		p := &statePlay{T: t, trial: c, call: drawStateCase(c)}
		p.state = p.newState()
		for range 1 + c.IntN(6) {
			p.step()
		}
		p.finish()
	})
}

// drawStateCase draws a call; of some, the keys fill more than a segment.
func drawStateCase(c *trial) *stateCase {
	s := &stateCase{b: 1 + c.IntN(2), kv: 1 + c.IntN(2), lq: 1 + c.IntN(4), lk: 1 + c.IntN(10), d: 1 + c.IntN(6), dv: 1 + c.IntN(18)}
	switch draw := c.IntN(32); {
	case draw == 0: // several segments
		s.lk = Segment + c.IntN(2*Segment)
		s.b, s.kv, s.lq = 1, 1, min(s.lq, 2)
	case draw < 8: // several blocks
		s.lk += c.IntN(3 * Block)
	}
	s.h = s.kv * (1 + c.IntN(2))
	s.q, s.k, s.v = c.tensor(s.b, s.h, s.lq, s.d), c.tensor(s.b, s.kv, s.lk, s.d), c.tensor(s.b, s.kv, s.lk, s.dv)
	s.opt = *randomOptions(c.Rand, s.b, s.h, s.lq, s.lk)
	if s.opt.Causal == BottomRight { // which a state does not know
		s.opt.Causal, s.opt.Offset = TopLeft, s.lk-s.lq
	}
	return s
}

// tensor returns a contiguous tensor.
func (c *trial) tensor(b, h, l, d int) Tensor {
	x := make([]float32, b*h*l*d)
	c.fill(c.kind, x)
	return BHLD(x, b, h, l, d)
}

func (p *statePlay) newState() *State { return p.call.newState(p) }

func (p *statePlay) step() {
	switch p.IntN(10) {
	case 0:
		p.want(p.state.Merge(p.newState()), nil) // which is empty
	case 1:
		p.travel()
	case 2:
		p.finish()
	case 3:
		p.updateWrong()
	case 4:
		p.mergeWrong()
	case 5:
		if p.IntN(3) == 0 {
			p.state.Reset()
		}
	case 6, 7:
		p.merge()
	default:
		p.update(p.state, p.chunk(p.state.Keys()), 0)
	}
}

// chunk returns where a chunk that begins with key lo may end: at the end of a
// block or of all keys.
func (p *statePlay) chunk(lo int) (hi int) {
	blocks := 1 + p.IntN(4)
	if p.IntN(3) == 0 {
		blocks += Segment / Block
	}
	return min(p.call.lk, lo+blocks*Block)
}

// update gives a state that begins with key origin the keys up to hi. Once all
// keys were seen, which may be within a block, nothing is left to give.
func (p *statePlay) update(s *State, hi, origin int) {
	k, v, opt := p.call.chunk(origin+s.Keys(), hi, origin)
	p.want(s.Update(p.call.q, k, v, opt), nil)
}

// merge gives the next keys to a state of its own, which it merges. If whole
// segments were seen, that gives the same bits.
func (p *statePlay) merge() {
	origin := p.state.Keys()
	if origin%Segment != 0 {
		return
	}
	part := p.newState()
	for range 1 + p.IntN(3) {
		p.update(part, p.chunk(origin+part.Keys()), origin)
	}
	p.want(p.state.Merge(part), nil)
}

// travel goes on with a copy that was written and read.
func (p *statePlay) travel() {
	data, err := p.state.MarshalBinary()
	p.want(err, nil)
	other := p.newState()
	if p.IntN(2) == 0 {
		other = p.state
	}
	p.want(other.UnmarshalBinary(data), nil)
	p.state = other
	if p.IntN(2) == 0 {
		data = data[:p.IntN(len(data))]
		p.want(p.state.UnmarshalBinary(data), ErrFormat)
	}
}

func (p *statePlay) updateWrong() {
	c := p.call
	lo := p.state.Keys()
	k, v, opt := c.chunk(lo, p.chunk(lo), 0)
	q, wanted := c.q, ErrShape
	switch p.IntN(6) {
	case 0:
		opt.Causal, opt.Offset, wanted = BottomRight, 0, ErrOption
	case 1:
		opt.LSE, wanted = make([]float32, c.b*c.h*c.lq), ErrOption
	case 2:
		if k.L == 0 {
			return // weights of no keys are no view
		}
		weights := BHLD(make([]float32, c.b*c.h*c.lq*k.L), c.b, c.h, c.lq, k.L)
		opt.Weights, wanted = &weights, ErrUnsupported
	case 3:
		q.L, opt = q.L-1, nil
	case 4:
		v.D, opt = v.D-1, nil
	case 5:
		q.Data, wanted = q.Data[1:], ErrLength
	}
	p.want(p.state.Update(q, k, v, opt), wanted)
}

func (p *statePlay) mergeWrong() {
	c := p.call
	other, err := NewState(c.b, c.h, c.lq, c.dv+1)
	p.want(err, nil)
	p.want(p.state.Merge(other), ErrShape)
}

func (p *statePlay) want(err, kind error) {
	if !errors.Is(err, kind) {
		p.Fatalf("after %d keys: error is %v, want %v", p.state.Keys(), err, kind)
	}
}

// finish compares the state with one call over the keys that it has seen.
func (p *statePlay) finish() {
	c := p.call
	k, v, opt := c.chunk(0, p.state.Keys(), 0)
	if k.L == 0 {
		opt.Sinks = nil // which come with the first keys
	}
	c.want, c.wantLSE = nans(c.b*c.h*c.lq*c.dv), nans(c.b*c.h*c.lq)
	opt.LSE = c.wantLSE
	p.want(Attend(BHLD(c.want, c.b, c.h, c.lq, c.dv), c.q, k, v, opt), nil)
	c.finish(p, "state", p.state)
}
