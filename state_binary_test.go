package attn

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// travelPlay is calls on some states of one shape: any that succeed, with any options, queries and
// units.
type travelPlay struct {
	*testing.T
	*trial
	b, h, l, d int
	sinks      []float32
	states     [3]*State
}

// FuzzStateTravels: whatever calls have made of a State, its binary form is read, and gives an
// equal one.
func FuzzStateTravels(f *testing.F) {
	fuzzPlays(f, func(t *testing.T, c *trial) {
		p := &travelPlay{T: t, trial: c, b: 1 + c.IntN(2), h: 2 * (1 + c.IntN(2)), l: 1 + c.IntN(3),
			d: 1 + c.IntN(9)}
		if c.IntN(16) == 0 {
			*[]*int{&p.b, &p.h, &p.l}[c.IntN(3)] = 0
		}
		p.sinks = make([]float32, p.h)
		special.Fill(c.Rand, p.sinks)
		for i := range p.states {
			p.states[i] = p.newState()
		}
		for range 1 + c.IntN(8) {
			i := c.IntN(len(p.states))
			p.step(i)
			p.states[i] = p.travel(p.states[i])
		}
	})
}

func (p *travelPlay) newState() *State {
	s, err := NewState(StateConfig{p.b, p.h, p.l, p.d})
	must(p, err)
	return s
}

// step makes a call that may fail.
func (p *travelPlay) step(i int) {
	s := p.states[i]
	switch p.IntN(8) {
	case 0:
		s.Reset()
	case 1, 2:
		must(p, s.Merge(p.states[p.IntN(len(p.states))])) // which may be itself
	case 3:
		p.updateSequence(s)
	default:
		n := p.keys()
		d, kv := 1+p.IntN(9), p.kvHeads()
		q, k, v := p.tensor(p.b, p.h, p.l, d), p.tensor(p.b, kv, n, d), p.tensor(p.b, kv, n, p.d)
		p.mayUpdate(threeWorkers().Update(s, q, k, v, p.options(n)))
	}
}

// keys is how many keys a call has: none, some, or more than a segment.
func (p *travelPlay) keys() int {
	switch p.IntN(16) {
	case 0:
		return 0
	case 1:
		return Segment + p.IntN(Segment)
	}
	return 1 + p.IntN(2*Block)
}

func (p *travelPlay) kvHeads() int { return min(p.h, 1+p.IntN(2)) }

// tensor has elements of one of several kinds and sizes.
func (p *travelPlay) tensor(b, h, l, d int) Tensor {
	x := zeros(b, h, l, d)
	distribution(p.IntN(int(distributions))).Fill(p.Rand, x.Data)
	scaleBy(x.Data, float32(math.Ldexp(1, p.IntN(200)-100)))
	return x
}

func (p *travelPlay) options(n int) *Options {
	o := &Options{}
	if p.IntN(2) == 0 {
		o = randomOptions(p.Rand, p.b, p.h, p.l, n)
	}
	if o.Sinks = nil; p.IntN(3) == 0 {
		o.Sinks = p.sinks
	}
	if o.Integers = p.IntN(3) > 0; p.IntN(2) == 0 {
		o.Scale = float32(math.Ldexp(1, p.IntN(275)-149))
	}
	return o
}

// updateSequence is an Update over a store, of which values may be rotated.
func (p *travelPlay) updateSequence(s *State) {
	c := StoreConfig{KVHeads: max(1, p.kvHeads()), HeadDim: p.d + p.IntN(9), ValueDim: p.d,
		Pages: 2*Segment/Block + 2, Format: I8, ValuesInKeys: p.IntN(3) > 0}
	n := p.keys()
	seq := sequenceOf(p.T, c)
	k, v := tensor(p.Rand, normal, 1, c.KVHeads, n, c.HeadDim), Tensor{}
	if !c.ValuesInKeys {
		v = tensor(p.Rand, normal, 1, c.KVHeads, n, p.d)
	}
	must(p, seq.Append(k, v))
	o := p.options(n)
	o.KeyLens = nil
	p.mayUpdate(s.UpdateSequence(p.tensor(p.b, p.h, p.l, c.HeadDim), seq, o))
	must(p, seq.store.Close())
}

// mayUpdate: an Update fails for its options only, or for a sequence where there are several
// entries.
func (p *travelPlay) mayUpdate(err error) {
	if err != nil {
		p.Logf("refused: %v", err)
	}
}

// travel writes and reads a state, and compares.
func (p *travelPlay) travel(s *State) *State {
	data, err := s.MarshalBinary()
	must(p, err)
	var other State
	must(p, other.UnmarshalBinary(data))
	again, err := other.MarshalBinary()
	must(p, err)
	if string(again) != string(data) {
		p.Fatalf("after %d keys: the form of what was read is\n%x, want\n%x", s.Keys(), again, data)
	}
	rows := p.b * p.h * p.l
	var dst, lse [2][]float32
	for i, s := range []*State{s, &other} {
		dst[i], lse[i] = nans(rows*p.d), nans(rows)
		must(p, s.Finish(BHLD(dst[i], p.b, p.h, p.l, p.d), lse[i]))
	}
	mustEqualBits(p, "outputs", dst[1], dst[0])
	mustEqualBits(p, "log-sum-exps", lse[1], lse[0])
	if p.IntN(2) == 0 {
		return s
	}
	return &other
}

// A State carries units within float32, the smallest of which is that of the smallest query, and
// refuses others.
func TestStateUnitsTravel(t *testing.T) {
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	q, x := BHLD([]float32{math.SmallestNonzeroFloat32}, 1, 1, 1, 1), zeros(1, 1, 1, 1)
	must(t, s.Update(q, x, x, &Options{Integers: true, Scale: 0.25}))
	data, err := s.MarshalBinary()
	must(t, err)
	unit := data[stateHeader:]
	if got := binary.LittleEndian.Uint32(unit); got != 1 {
		t.Errorf("the unit is %x, want 1, the smallest number", got)
	}
	for e, want := range map[float32]error{math.SmallestNonzeroFloat32: nil, math.MaxFloat32: nil,
		0: ErrFormat, -1: ErrFormat, nan32(): ErrFormat, float32(math.Inf(1)): ErrFormat} {
		binary.LittleEndian.PutUint32(unit, math.Float32bits(e))
		if err := new(State).UnmarshalBinary(data); !errors.Is(err, want) {
			t.Errorf("a unit of %v: error is %v, want %v", e, err, want)
		}
	}
}

// Maxima that overflow in natural units keep what their rows have seen.
func TestStateUnitsThatOverflow(t *testing.T) {
	for _, int8 := range []bool{false, true} {
		for _, sign := range []float32{1, -1} {
			q, k, v := zeros(1, 1, 2, 4), zeros(1, 1, 3, 4), zeros(1, 1, 3, 4)
			fillWith(q.Data, 1e30)
			fillWith(k.Data, sign)
			fillWith(v.Data, 5)
			s, err := NewState(StateConfig{1, 1, 2, 4})
			must(t, err)
			must(t, s.Update(q, k, v, &Options{Integers: int8, Scale: 1e30}))
			masked := BHLD(make([]bool, 2*3), 1, 1, 2, 3)
			must(t, s.Update(q, k, v, &Options{Softcap: 1, Mask: masked}))
			dst, lse := zeros(1, 1, 2, 4), make([]float32, 2)
			must(t, s.Finish(dst, lse))
			for i, e := range dst.Data {
				if !(math.Abs(float64(e)-5) < 1e-3) {
					t.Fatalf("Int8 %t, keys of %v: output %d is %v, want 5", int8, sign, i, e)
				}
			}
			if want := math.MaxFloat32 * sign; lse[0] != want {
				t.Errorf("Int8 %t, keys of %v: LSE is %v, want %v", int8, sign, lse[0], want)
			}
		}
	}
}
