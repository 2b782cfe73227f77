package attn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/stop/stoptest"
)

// longCall is a public function over so much memory, or so large blocks of it, that it runs for
// milliseconds.
type longCall struct {
	function string
	of       string // what of, empty if there is one such call
	run      func() error
}

// longCalls are of every public function that may run long, in groups that share memory.
var longCalls = []func(t *testing.T) []longCall{sliceCalls, attentionCalls, pooledCalls, cacheCalls,
	wideCacheCalls, sequenceCalls, matrixCalls, blockCalls, stateCalls, wideStateCalls}

// shortFunctions are not slower for more memory, or call other functions that are measured.
const shortFunctions = `BHLD BLHD Rows View.Strides View.Slice View.Heads View.Row
	Implementation NewPool Pool.Close NewCache Cache.Config Cache.MemoryUse Cache.Close Cache.Len
	Cache.First Cache.Reset Cache.Truncate Cache.DropBefore NewStore Store.Config Store.FreePages
	Store.MemoryUse Store.Close Store.NewSequence Sequence.Release Sequence.Len Sequence.First
	Sequence.PagesFor Sequence.Truncate Sequence.DropBefore Sequence.Fork NewState State.Close
	State.Config State.Keys State.Reset Matrix.Dims Matrix.MemoryUse Matrix.Close
	Matrix.Format Matrix.BlockType
	SaveMatrices MapMatrices Matrices.Names Matrices.Matrix Matrices.Close
	Format.String BlockType.String Causal.String`

// TestStopsOfTheWorld measures how long a stop of the world waits for each public function that may
// run long. Where other programs have the cores, stops wait for the operating system: so what
// counts is the first quartile, and of some tries the best.
func TestStopsOfTheWorld(t *testing.T) {
	if testing.Short() || sanitize.Enabled || !tuned.ISA.SIMD() {
		t.Skip("an emulated CPU takes other times, a sanitizer looks at all of an operand at once, and " +
			"Go code may stop anywhere")
	}
	stoptest.Check(t, shortFunctions, func(yield func(function, of string, run func() error)) {
		for _, group := range longCalls {
			for _, c := range group(t) {
				yield(c.function, c.of, c.run)
			}
		}
	})
}

// always is a call that has no errors.
func always(run func()) func() error { return func() error { run(); return nil } }

func sliceCalls(*testing.T) []longCall {
	const n = 1 << 23
	x, y := tensor(random("stops"), normal, 1, 1, 1, n).Data, make([]float32, n)
	none := slices.Repeat([]float32{negInf}, n)
	few, many, halves := make([]int32, 8), make([]int32, n/8), make([]uint16, n)
	return []longCall{
		{"Dot", "", always(func() { Dot(x, x) })},
		{"Max", "", always(func() { Max(x) })},
		{"Exp", "", always(func() { Exp(y, x) })},
		{"ExpSum", "", always(func() { ExpSum(y, x, 3) })},
		{"Softmax", "", always(func() { Softmax(y, x) })},
		{"Softmax", "nothing", always(func() { Softmax(y, none) })},
		{"LogSumExp", "", always(func() { LogSumExp(x) })},
		{"Widen", "", always(func() { Widen(y, halves, F16) })},
		{"Narrow", "", always(func() { Narrow(halves, x, F16) })},
		{"TopK", "few", always(func() { TopK(few, x) })},
		{"TopK", "many", always(func() { TopK(many, x) })},
	}
}

// dotWorker computes a dot product in each part.
type dotWorker []float32

func (w dotWorker) Work(int) { Dot(w, w) }

// wide is a dimension of heads whose blocks need milliseconds to copy.
const wide = 65536

// attentionCalls are of heads of usual and of large dimension, with and without options.
func attentionCalls(*testing.T) (calls []longCall) {
	r := random("stops")
	for _, s := range []shape{{1, 1, 1, 64, 8192, 128, 128}, {1, 1, 1, 1, 65536, 128, 128},
		{1, 1, 1, 5, 128, wide, wide}} {
		p := newProblem(r, normal, s)
		dst, weights, lse := p.results()
		listed := make([]int32, s.lk)
		for i := range listed {
			listed[i] = int32(i)
		}
		for _, c := range []struct {
			name string
			opt  Options
		}{
			{"nothing", Options{}},
			{"Causal", Options{Causal: BottomRight}},
			{"Mask", Options{Mask: p.randomMask(r)}},
			{"Bias, Softcap", Options{Bias: tensor(r, normal, 1, 1, s.lq, s.lk), Softcap: 30}},
			{"Slopes, Sinks, LSE, Weights", Options{Slopes: []float32{0.1}, Sinks: []float32{1}, LSE: lse,
				Weights: weights}},
			{"Integers", Options{Integers: s.d < wide}},
			{"BFloat16", Options{BFloat16: true}},
			{"Keys", Options{Keys: View[int32]{Data: listed, B: 1, H: 1, L: s.lq, D: s.lk, SB: Broadcast,
				SH: Broadcast, SL: Broadcast}}},
		} {
			calls = append(calls, longCall{"Attend", fmt.Sprint(s, " ", c.name), func() error {
				return Attend(dst, p.q, p.k, p.v, &c.opt)
			}})
		}
	}
	return calls
}

// pooledCalls are of workers that have much to do, and of such that spin between calls.
func pooledCalls(t *testing.T) []longCall {
	r := random("stops")
	pool := NewPool(0)
	t.Cleanup(func() { must(t, pool.Close()) })
	p := newProblem(r, normal, shape{1, 8, 1, 64, 4096, 64, 64})
	dst, _, _ := p.results()
	one := newProblem(r, normal, shape{1, 8, 1, 1, 512, 64, 64})
	oneDst, _, _ := one.results()
	c, err := filled(p.k, p.v)
	must(t, err)
	s, err := NewStore(StoreConfig{KVHeads: 8, HeadDim: 64, ValueDim: 64, Pages: 64})
	must(t, err)
	seq := s.NewSequence()
	must(t, seq.Append(p.k, p.v))
	seqs, sequenceOptions := []*Sequence{seq}, &Options{QueryLens: []int{64}}
	state, err := NewState(StateConfig{Batch: 1, Heads: 8, Queries: 64, ValueDim: 64})
	must(t, err)
	w, a, product := tensor(r, normal, 1, 1, 2048, 2048), tensor(r, normal, 1, 1, 64, 2048),
		zeros(1, 1, 64, 2048)
	m, err := PackMatrix(w, MatrixConfig{})
	must(t, err)
	blocks := fileOfBlocks(r, Q8_0, 2048, 2048)
	experts := BHLD(make([]int32, 64), 1, 1, 64, 1)
	return []longCall{
		{"Pool.Attend", "much", func() error { return pool.Attend(dst, p.q, p.k, p.v, nil) }},
		{"Pool.Attend", "little", func() error { return pool.Attend(oneDst, one.q, one.k, one.v, nil) }},
		{"Pool.AttendCache", "", func() error { return pool.AttendCache(dst, p.q, c, nil) }},
		{"Pool.AppendCache", "", func() error {
			c.Reset()
			return pool.AppendCache(c, p.k, p.v)
		}},
		{"Pool.AppendSequence", "", func() error {
			return errors.Join(seq.Truncate(0), pool.AppendSequence(seq, p.k, p.v))
		}},
		{"Pool.AttendSequences", "", func() error {
			return pool.AttendSequences(dst, p.q, seqs, sequenceOptions)
		}},
		{"Pool.Update", "", func() error {
			state.Reset()
			return pool.Update(state, p.q, p.k, p.v, nil)
		}},
		{"Pool.UpdateSequence", "", func() error {
			state.Reset()
			return pool.UpdateSequence(state, p.q, seq, nil)
		}},
		{"Pool.UpdateSequences", "", func() error {
			state.Reset()
			return pool.UpdateSequences(state, p.q, seqs, nil)
		}},
		{"State.UpdateSequence", "", func() error {
			state.Reset()
			return state.UpdateSequence(p.q, seq, nil)
		}},
		{"State.UpdateSequences", "", func() error {
			state.Reset()
			return state.UpdateSequences(p.q, seqs, nil)
		}},
		{"Pool.Run", "", func() error { return pool.Run(8, dotWorker(w.Data)) }},
		{"Pool.MatMul", "", func() error { return pool.MatMul(product, a, w) }},
		{"Pool.MatMulTransposed", "", func() error { return pool.MatMulTransposed(product, a, w) }},
		{"Pool.MulMatrix", "", func() error { return pool.MulMatrix(product, a, m, nil) }},
		{"Pool.MulMatrices", "", func() error {
			return pool.MulMatrices([]Tensor{product}, a, []*Matrix{m}, nil)
		}},
		{"MulMatrices", "", func() error {
			return MulMatrices([]Tensor{product}, a, []*Matrix{m}, nil)
		}},
		{"Pool.MulExperts", "", func() error {
			return pool.MulExperts(product, a, []*Matrix{m}, experts, nil)
		}},
		{"Pool.PackMatrix", "", func() error { return closed(pool.PackMatrix(w, MatrixConfig{})) }},
		{"Pool.PackBlocks", "", func() error {
			return closed(pool.PackBlocks(blocks, Q8_0, 2048, 2048, MatrixConfig{}))
		}},
	}
}

func cacheCalls(t *testing.T) []longCall     { return cacheCallsOf(t, 128, 1<<15) }
func wideCacheCalls(t *testing.T) []longCall { return cacheCallsOf(t, wide, Block) }

// cacheCallsOf are over a number of tokens of a dimension.
func cacheCallsOf(t *testing.T, d, tokens int) (calls []longCall) {
	r := random("stops")
	k := tensor(r, normal, 1, 1, tokens, d)
	read, values := zeros(1, 1, tokens, d), zeros(1, 1, tokens, d)
	q, dst := tensor(r, normal, 1, 1, 1, d), zeros(1, 1, 1, d)
	odd := make([]int, tokens/2)
	for i := range odd {
		odd[i] = 2*i + 1
	}
	for _, f := range someFormats() {
		g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: tokens, Format: f}
		c, err := NewCache(g)
		must(t, err)
		must(t, c.Append(k, k))
		file := cacheFileOf(t, c)
		call := func(name, of string, run func() error) {
			calls = append(calls, longCall{"Cache." + name, fmt.Sprint(f, " ", d, " ", of), run})
		}
		call("Append", "", func() error { c.Reset(); return c.Append(k, k) })
		call("Read", "", func() error { return c.Read(read, values, 0) })
		call("Save", "", func() error { _, err := c.Save(io.Discard); return err })
		call("Load", "beside", func() error { _, err := c.Load(bytes.NewReader(file)); return err })
		call("Load", "", func() error { c.Reset(); _, err := c.Load(bytes.NewReader(file)); return err })
		call("Keep", "", func() error { c.length = tokens; return c.Keep(odd) })
		call("Attend", "", func() error { c.length = tokens; return c.Attend(dst, q, nil) })
		call("Grow", "", func() error { // it only grows, so it is told that it has not
			c.config.Capacity, c.packed.Count, c.length = tokens, blocksOf(tokens), tokens
			return c.Grow(tokens + 1)
		})
	}
	return calls
}

// someFormats are all, or if tests are to be few, the widest and one of integers.
func someFormats() []Format {
	if few() {
		return []Format{F32, I8}
	}
	return allFormats
}

func sequenceCalls(t *testing.T) []longCall {
	r := random("stops")
	const tokens = 2*Block - 1
	k := tensor(r, normal, 1, 1, tokens, wide)
	s, err := NewStore(StoreConfig{KVHeads: 1, HeadDim: wide, ValueDim: wide, Pages: 8})
	must(t, err)
	seq := s.NewSequence()
	must(t, seq.Append(k, k))
	var file bytes.Buffer
	_, err = seq.Save(&file)
	must(t, err)
	one, odd := rowsOf(k, 0, 1), make([]int, tokens/2)
	for i := range odd {
		odd[i] = 2*i + 1
	}
	q, dst := tensor(r, normal, 1, 1, 1, wide), zeros(1, 1, 1, wide)
	read, values := zeros(1, 1, tokens, wide), zeros(1, 1, tokens, wide)
	return []longCall{
		{"Sequence.Save", "", func() error { _, err := seq.Save(io.Discard); return err }},
		{"Sequence.Load", "", func() error {
			_, err := seq.Load(bytes.NewReader(file.Bytes()))
			return err
		}},
		{"Sequence.Append", "a copy of a page", func() error {
			fork := seq.Fork()
			defer fork.Release()
			return fork.Append(one, one)
		}},
		{"Sequence.Keep", "", func() error {
			fork := seq.Fork()
			defer fork.Release()
			return fork.Keep(odd)
		}},
		{"Sequence.Read", "", func() error { return seq.Read(read, values, 0) }},
		{"AttendSequences", "", func() error { return AttendSequences(dst, q, []*Sequence{seq}, nil) }},
	}
}

func matrixCalls(t *testing.T) (calls []longCall) {
	r := random("stops")
	for _, n := range [][2]int{{2048, 2048}, {1 << 19, 16}, {16, 1 << 19}} {
		inputs, outputs := n[0], n[1]
		w, a := tensor(r, normal, 1, 1, inputs, outputs), tensor(r, normal, 1, 1, 3, inputs)
		turned, dst := BHLD(w.Data, 1, 1, outputs, inputs), zeros(1, 1, 3, outputs)
		all, weights := make([]int32, outputs), zeros(1, 1, outputs, inputs)
		nobody := View[int32]{Data: []int32{-1}, B: 1, H: 1, L: 3, D: 1, SL: Broadcast}
		experts := BHLD([]int32{0, 0, 0}, 1, 1, 3, 1)
		for i := range all {
			all[i] = int32(i)
		}
		calls = append(calls, longCall{"MatMul", fmt.Sprint(n), func() error {
			return MatMul(dst, a, w)
		}}, longCall{"MatMulTransposed", fmt.Sprint(n), func() error {
			return MatMulTransposed(dst, a, turned)
		}})
		for _, f := range someFormats() {
			if f == I4 {
				continue
			}
			m, err := PackMatrix(w, MatrixConfig{Format: f, Integers: f == I8})
			must(t, err)
			path, file := filepath.Join(t.TempDir(), "matrix"), matrixFileOf(t, m)
			must(t, os.WriteFile(path, file, 0o600))
			call := func(name, of string, run func() error) {
				calls = append(calls, longCall{name, fmt.Sprint(f, " ", n, " ", of), run})
			}
			call("PackMatrix", "", func() error { return closed(PackMatrix(w, MatrixConfig{Format: f})) })
			call("PackMatrix", "transposed", func() error {
				return closed(PackMatrix(turned, MatrixConfig{Format: f, Transposed: true}))
			})
			call("Matrix.MatMul", "", func() error { return m.MatMul(dst, a, nil) })
			call("MulExperts", "", func() error {
				return MulExperts(dst, a, []*Matrix{m}, experts, nil)
			})
			call("MulExperts", "nobody", func() error {
				return MulExperts(dst, a, []*Matrix{m}, nobody, nil)
			})
			call("Matrix.Rows", "", func() error { return m.Rows(weights, all) })
			call("Matrix.Save", "", func() error { _, err := m.Save(io.Discard); return err })
			call("LoadMatrix", "", func() error { return closed(LoadMatrix(bytes.NewReader(file))) })
			call("MapMatrix", "", func() error { return closed(MapMatrix(path)) })
		}
	}
	return calls
}

func blockCalls(t *testing.T) (calls []longCall) {
	r := random("stops")
	for _, b := range integerBlockTypes {
		const outputs, inputs = 1024, 4096
		data := fileOfBlocks(r, b, outputs, inputs)
		m, err := PackBlocks(data, b, outputs, inputs, MatrixConfig{})
		must(t, err)
		a, dst, file := tensor(r, normal, 1, 1, 3, inputs), zeros(1, 1, 3, outputs), matrixFileOf(t, m)
		calls = append(calls,
			longCall{"PackBlocks", b.String(), func() error {
				return closed(PackBlocks(data, b, outputs, inputs, MatrixConfig{}))
			}},
			longCall{"Matrix.MatMul", b.String(), func() error { return m.MatMul(dst, a, nil) }},
			longCall{"LoadMatrix", b.String(), func() error {
				return closed(LoadMatrix(bytes.NewReader(file)))
			}})
	}
	return calls
}

// closed closes a matrix again.
func closed(m *Matrix, err error) error {
	if err != nil {
		return err
	}
	return m.Close()
}

func stateCalls(t *testing.T) []longCall     { return stateCallsOf(t, 32768, 128) }
func wideStateCalls(t *testing.T) []longCall { return stateCallsOf(t, 64, wide) }

// stateCallsOf are over so many rows of a dimension that a state has megabytes.
func stateCallsOf(t *testing.T, rows, d int) (calls []longCall) {
	p := newProblem(random("stops"), normal, shape{1, 1, 1, rows, 1, d, d})
	filled := func() *State {
		s, err := NewState(StateConfig{Batch: 1, Heads: 1, Queries: rows, ValueDim: d})
		must(t, err)
		must(t, s.Update(p.q, p.k, p.v, nil))
		return s
	}
	s, other, dst, lse := filled(), filled(), zeros(1, 1, rows, d), make([]float32, rows)
	data, err := s.MarshalBinary()
	must(t, err)
	before := make([]byte, 1<<24)
	call := func(name, of string, run func() error) {
		calls = append(calls, longCall{"State." + name, fmt.Sprint(rows, "×", d, " ", of), run})
	}
	call("Update", "", func() error { s.Reset(); return s.Update(p.q, p.k, p.v, nil) })
	call("Merge", "into none", func() error { s.Reset(); return s.Merge(other) })
	call("Merge", "", func() error {
		if s.Keys() > 1000 { // or the state would grow
			s.Reset()
		}
		return s.Merge(other)
	})
	call("Finish", "", func() error { return s.Finish(dst, lse) })
	call("MarshalBinary", "", func() error { _, err := other.MarshalBinary(); return err })
	call("AppendBinary", "", func() error { _, err := other.AppendBinary(before); return err })
	call("UnmarshalBinary", "", func() error { return other.UnmarshalBinary(data) })
	return calls
}
