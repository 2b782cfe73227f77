package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/pool"
)

// Pool is a set of persistent workers that share the work of each call. The results have the bits
// of [Attend], [Cache.Attend], [MatMul] and [Matrix.MatMul], for any number of workers. A nil *Pool
// computes on the calling goroutine; its Close does nothing.
//
// A Pool may be used by any number of goroutines at the same time. A call that
// would take less than about 20 µs stays on the caller's goroutine.
//
// If calls follow each other within 50 µs, workers spin for up to 50 µs before they sleep, and
// start the next call within a microsecond: two workers are then at least 1.7 times as fast for
// calls from about 75 µs on. Each spinning worker keeps a core busy for that time; fewer than
// GOMAXPROCS spin in all pools together. A caller spins as long for the last workers. If calls are
// rarer, workers sleep between them and need tens of microseconds to wake, so only calls of about
// 250 µs or more are shared. An unused pool costs no time.
//
// If workers start too late or not at all, because other programs use their cores, the next calls
// of less than a millisecond stay on the caller's goroutine, until the workers are tried again
// after at most about 40 ms.
//
// In the steady state a call does not allocate. Since other goroutines see the caller's buffers,
// these cannot live on the caller's stack: a local array that is passed to a Pool is allocated on
// the heap by the function that declares it. Options may: a literal &Options{…} in the call costs
// no allocation.
type Pool struct{ workers pool.Pool[*worker] }

// MaxWorkers is the largest number of workers of a [Pool].
const MaxWorkers = 4096

// NewPool starts a pool of n workers: n−1 goroutines and the caller's. n ≤ 0 means GOMAXPROCS, and
// a pool never has more than [MaxWorkers]. The goroutines run until Close.
func NewPool(n int) *Pool {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	p := new(Pool)
	p.workers.Start(min(n, MaxWorkers), &tuned, newWorker)
	return p
}

// Close waits for running calls and ends the workers. Later calls, Close among them, return
// [ErrClosed].
func (p *Pool) Close() error {
	if p == nil {
		return nil
	}
	return p.workers.Close()
}

// Worker is work in parts for [Pool.Run]: Work does one part, 0 to parts − 1, on any goroutine,
// concurrently with other parts.
type Worker interface{ Work(part int) }

// Run calls w.Work once for each part from 0 to parts − 1, on all workers of the pool, the calling
// goroutine among them, and returns when all parts are done: for an engine's own loops, without a
// second set of goroutines. A worker that is done with a part takes the next one, in ascending
// order, so parts may differ in length; they should last 10 µs or more. All workers are offered
// parts, whatever these cost; sleeping workers are woken, as in other calls.
//
// All parts see memory that was written before Run, and the caller sees after Run what parts wrote.
// Run does not allocate if w is a pointer; a struct value as a Worker may be allocated by the
// caller.
//
// Work may call this Pool, which computes on that worker and on idle ones, and may wait for other
// goroutines that do; but it must not wait for another part, which may not have started, nor for
// Close. If Work panics, Run panics with that value once no part is running; other parts may not
// have been done, and the pool stays usable. If Work ends its goroutine by [runtime.Goexit], Run
// ends the caller's.
//
// A nil *Pool does all parts on the calling goroutine, in order. The error is [ErrOption] for parts
// below 0 and for a nil w with parts to do, and [ErrClosed] for a closed pool, also with 0 parts.
func (p *Pool) Run(parts int, w Worker) error {
	if p == nil {
		return runAlone(parts, w)
	}
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	of := &call.Memory.parts
	defer func() { *of = callerParts{}; call.End() }()
	if err := checkParts(parts, w); err != nil || parts == 0 {
		return err
	}
	*of = callerParts{w}
	call.DoParts(of, parts)
	return nil
}

// runAlone is Run of a nil Pool.
func runAlone(parts int, w Worker) error {
	if err := checkParts(parts, w); err != nil {
		return err
	}
	for i := range parts {
		w.Work(i)
	}
	return nil
}

func checkParts(parts int, w Worker) error {
	if parts < 0 {
		return fail(ErrOption, "parts is %d, want at least 0", parts)
	}
	if parts > 0 && w == nil {
		return fail(ErrOption, "w is nil, want a Worker")
	}
	return nil
}

// Attend works like the function [Attend], on all workers of the pool.
func (p *Pool) Attend(dst, q, k, v Tensor, opt *Options) error {
	if p == nil {
		return Attend(dst, q, k, v, opt)
	}
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	a := &call.Memory.attention
	a.plan = newPlan(dst, q, k, v, opt)
	if opt != nil && opt.Documents != nil {
		err = a.plan.initDocuments(&a.call, opt)
	} else {
		err = a.plan.init(opt)
	}
	if err == nil {
		a.attend(call)
	}
	a.end(call)
	return err
}

// AttendCache works like [Cache.Attend], on all workers of the pool.
func (p *Pool) AttendCache(dst, q Tensor, c *Cache, opt *Options) error {
	if p == nil {
		return c.Attend(dst, q, opt)
	}
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	a := &call.Memory.attention
	a.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err = c.plan(&a.plan, opt); err == nil {
		a.attend(call)
	}
	a.end(call)
	return err
}

// AppendCache is [Cache.Append] on all workers of the pool.
func (p *Pool) AppendCache(c *Cache, k, v Tensor) error {
	if p == nil {
		return c.Append(k, v)
	}
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	x := &call.Memory.writing
	defer x.end(call)
	*x = writing{k: k, v: v}
	if err := c.beginAppend(x); err != nil {
		return err
	}
	x.share(call)
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// AppendSequence is [Sequence.Append] on all workers of the pool.
func (p *Pool) AppendSequence(s *Sequence, k, v Tensor) error {
	if p == nil {
		return s.Append(k, v)
	}
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	x := &call.Memory.writing
	defer x.end(call)
	*x = writing{k: k, v: v}
	if err := s.beginAppend(x); err != nil {
		return err
	}
	x.share(call)
	return nil
}

// AttendSequences works like the function [AttendSequences], on all workers of the pool. The call
// is divided by the work of its sequences.
func (p *Pool) AttendSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	if p == nil {
		return AttendSequences(dst, q, seqs, opt)
	}
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	a := &call.Memory.attention
	defer a.end(call)
	if err := beginCalls(seqs, inOneStore); err != nil {
		return err
	}
	defer endCalls(seqs)
	a.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err := a.plan.initSequences(&a.call, seqs, opt); err != nil {
		return err
	}
	a.attend(call)
	return nil
}

// MatMul works like the function [MatMul], on all workers of the pool.
func (p *Pool) MatMul(dst, a, b Tensor) error {
	if p == nil {
		return MatMul(dst, a, b)
	}
	return p.matMul(&dst, &a, &b, false)
}

// MatMulTransposed works like the function [MatMulTransposed], on all workers of the pool.
func (p *Pool) MatMulTransposed(dst, a, b Tensor) error {
	if p == nil {
		return MatMulTransposed(dst, a, b)
	}
	return p.matMul(&dst, &a, &b, true)
}

func (p *Pool) matMul(dst, a, b *Tensor, transposed bool) error {
	on, w, err := p.beginProducts()
	if err != nil {
		return err
	}
	defer on.end()
	return w.MatMul(on, &tuned, viewed(dst), viewed(a), viewed(b), transposed)
}

// MulMatrix works like [Matrix.MatMul], on all workers of the pool.
func (p *Pool) MulMatrix(dst, a Tensor, m *Matrix, bias []float32) error {
	if p == nil {
		return m.MatMul(dst, a, bias)
	}
	on, w, err := p.beginProducts()
	if err != nil {
		return err
	}
	defer on.end()
	return w.MulMatrix(on, &tuned, viewed(&dst), viewed(&a), bodyOf(m), bias)
}

// MulMatrices works like the function [MulMatrices], on all workers of the pool, as one piece of
// work: workers that are done with a matrix continue with the next.
func (p *Pool) MulMatrices(dsts []Tensor, a Tensor, ms []*Matrix, biases [][]float32) error {
	if p == nil {
		return MulMatrices(dsts, a, ms, biases)
	}
	on, w, err := p.beginProducts()
	if err != nil {
		return err
	}
	defer on.end()
	return w.MulMatrices(on, &tuned, allViewed(dsts), viewed(&a), bodiesOf(ms), biases)
}

// MulExperts works like the function [MulExperts], on all workers of the pool, which share the
// products of all experts as one piece of work.
func (p *Pool) MulExperts(dst, a Tensor, ms []*Matrix, experts View[int32],
	biases [][]float32) error {
	if p == nil {
		return MulExperts(dst, a, ms, experts, biases)
	}
	on, w, err := p.beginProducts()
	if err != nil {
		return err
	}
	defer on.end()
	return w.MulExperts(on, &tuned, viewed(&dst), viewed(&a), bodiesOf(ms), viewed(&experts), biases)
}

// PackMatrix works like the function [PackMatrix], on all workers of the pool.
func (p *Pool) PackMatrix(w Tensor, c MatrixConfig) (*Matrix, error) {
	if p == nil {
		return PackMatrix(w, c)
	}
	on, _, err := p.beginProducts()
	if err != nil {
		return nil, err
	}
	defer on.end()
	m, err := matmul.PackMatrixOn(on, &tuned, viewed(&w), c.body())
	return withBody(m), err
}

// PackBlocks works like the function [PackBlocks], on all workers of the pool.
func (p *Pool) PackBlocks(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*Matrix,
	error) {
	if p == nil {
		return PackBlocks(data, t, outputs, inputs, c)
	}
	on, _, err := p.beginProducts()
	if err != nil {
		return nil, err
	}
	defer on.end()
	m, err := matmul.PackBlocksOn(on, data, blocks.Type(t), outputs, inputs, c.body())
	return withBody(m), err
}

// Update is [State.Update] on all workers of the pool.
func (p *Pool) Update(s *State, q, k, v Tensor, opt *Options) error {
	if p == nil {
		return s.Update(q, k, v, opt)
	}
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	a := &call.Memory.attention
	defer a.end(call)
	a.plan = newPlan(Tensor{}, q, k, v, opt)
	if err := a.plan.initKeys(); err != nil {
		return err
	}
	if err := s.initUpdate(&a.plan, opt); err != nil {
		return err
	}
	return s.addPooled(call, nil)
}

// UpdateSequence is [State.UpdateSequence] on all workers of the pool.
func (p *Pool) UpdateSequence(s *State, q Tensor, seq *Sequence, opt *Options) error {
	if p == nil {
		return s.UpdateSequence(q, seq, opt)
	}
	if err := seq.beginUpdate(); err != nil {
		return err
	}
	defer seq.endCall()
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	a := &call.Memory.attention
	defer a.end(call)
	a.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	a.plan.table, a.plan.first = &seq.table, seq.table.First()
	if err := s.initSequence(&a.plan, seq.store, seq.table.Len(), opt); err != nil {
		return err
	}
	return s.addPooled(call, nil)
}

// UpdateSequences is [State.UpdateSequences] on all workers of the pool.
func (p *Pool) UpdateSequences(s *State, q Tensor, seqs []*Sequence, opt *Options) error {
	if p == nil {
		return s.UpdateSequences(q, seqs, opt)
	}
	tokens, err := beginUpdates(seqs)
	if err != nil {
		return err
	}
	defer endCalls(seqs)
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	a := &call.Memory.attention
	defer a.end(call)
	a.plan = newPlan(Tensor{}, q, Tensor{}, Tensor{}, opt)
	if err := s.initSequence(&a.plan, seqs[0].store, tokens, opt); err != nil {
		return err
	}
	return s.addPooled(call, seqs)
}
