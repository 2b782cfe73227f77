package attn

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// poolCase is a problem and its result on one goroutine.
type poolCase struct {
	name string
	*problem
	want *result
}

// poolCases are problems of all kinds that a pool divides in different ways.
func poolCases(t testing.TB) (cases []*poolCase) {
	scaled := 1
	if tuned.ISA == tuning.Generic || few() {
		scaled = 4 // divided in the same ways in less time
	}
	for _, c := range []struct {
		name  string
		shape shape
		opt   Options
	}{
		{"prefill", shape{2, 2, 2, 200, 200, 16, 16}, Options{}},
		{"causal", shape{1, 2, 1, 800 / scaled, 800 / scaled, 16, 24}, Options{Causal: TopLeft}},
		{"few heads, long", shape{1, 1, 1, 150, 5000 / scaled, 16, 16}, Options{Causal: BottomRight}},
		{"decode", shape{1, 1, 4, 1, 5*Segment + 7, 16, 24}, Options{}},
		{"decode, lengths", shape{3, 1, 2, 3, 4 * Segment, 16, 8},
			Options{Causal: BottomRight, KeyLens: []int{4 * Segment, 5, 2*Segment + 1},
				QueryLens: []int{3, 0, 2}}},
		{"decode, window", shape{1, 1, 1, 2, 4 * Segment, 16, 16},
			Options{Causal: BottomRight, Window: Window{Left: 2*Segment + 9 + 1}}},
		{"decode, everything", shape{1, 1, 2, 5, 3 * Segment, 16, 16},
			Options{Softcap: 4, Slopes: []float32{-0.01, -0.002}, Sinks: []float32{1, -2},
				Causal: BottomRight}},
	} {
		p := newProblem(random(c.name), normal, c.shape)
		p.opt = c.opt
		cases = append(cases, &poolCase{c.name, p, p.solve(t, Attend)})
	}
	return cases
}

// check compares the result of another way with the known one.
func (c *poolCase) check(t testing.TB, what string, attend attender) {
	c.same(t, c.name+", "+what, c.solve(t, attend), c.want)
}

// shareSmallCalls makes a Pool share calls that it would leave to the calling goroutine.
func shareSmallCalls(t *testing.T) {
	row := tuned
	row.SmallCall, row.WakingCall = 0, 0
	useTuning(t, row)
}

// The number of workers does not change a bit, however the call is divided.
func TestPoolEqualsAttend(t *testing.T) {
	shareSmallCalls(t)
	forEach(t, func(t *testing.T) {
		cases := poolCases(t)
		counts := []int{1, 2, 3, 16, 64}
		if tuned.ISA == tuning.Generic || few() {
			counts = []int{5} // slow, and divided in the same ways
		}
		for _, n := range counts {
			p := NewPool(n)
			for _, c := range cases {
				c.check(t, fmt.Sprintf("%d workers", n), p.Attend)
			}
			must(t, p.Close())
		}
	})
}

// 32 goroutines use one pool at the same time.
func TestPoolConcurrentCallers(t *testing.T) {
	count := 32
	if few() {
		count = 8
	}
	shareSmallCalls(t)
	cases := poolCases(t)
	p := NewPool(4)
	var callers sync.WaitGroup
	for i := range count {
		callers.Go(func() {
			for round := range 2 {
				cases[(i+round)%len(cases)].check(t, fmt.Sprintf("caller %d", i), p.Attend)
			}
		})
	}
	callers.Wait()
	must(t, p.Close())
}

// Calls of all kinds go through one pool at the same time, over one cache and one matrix, which
// others use without a pool.
func TestPoolMixedCallers(t *testing.T) {
	shareSmallCalls(t)
	forEach(t, func(t *testing.T) {
		r := random("mixed callers")
		views := newProblem(r, normal, shape{1, 2, 3, 40, 300, 24, 40})
		views.opt = Options{Causal: BottomRight, Sinks: tensor(r, normal, 1, 1, 1, 6).Data}
		decode := newProblem(r, normal, shape{1, 1, 4, 2, 2*Segment + 9, 16, 16})
		cache, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 16, ValueDim: 16,
			Capacity: decode.k.L})
		must(t, err)
		must(t, cache.Append(decode.k, decode.v))
		a, b := tensor(r, normal, 1, 1, 50, 70), tensor(r, normal, 1, 1, 70, 90)
		matrix, err := PackMatrix(b, MatrixConfig{})
		must(t, err)
		product := func(call func(dst Tensor) error) *result {
			dst := BHLD(nans(a.L*b.D), 1, 1, a.L, b.D)
			must(t, call(dst))
			return &result{o: dst.Data}
		}
		wantViews, wantDecode := views.solve(t, Attend), decode.solve(t, Attend)
		wantProduct := product(func(dst Tensor) error { return MatMul(dst, a, b) })

		p := NewPool(3)
		var callers sync.WaitGroup
		for range 3 {
			for name, call := range map[string]func(name string){
				"Attend": func(name string) { views.same(t, name, views.solve(t, p.Attend), wantViews) },
				"AttendCache": func(name string) {
					attend := func(dst, q, _, _ Tensor, opt *Options) error {
						return p.AttendCache(dst, q, cache, opt)
					}
					decode.same(t, name, decode.solve(t, attend), wantDecode)
				},
				"Cache.Attend": func(name string) {
					attend := func(dst, q, _, _ Tensor, opt *Options) error { return cache.Attend(dst, q, opt) }
					decode.same(t, name, decode.solve(t, attend), wantDecode)
				},
				"MatMul": func(name string) {
					got := product(func(dst Tensor) error { return p.MulMatrix(dst, a, matrix, nil) })
					views.same(t, name, got, wantProduct)
				},
			} {
				callers.Go(func() {
					for range budget(100) {
						call(name)
					}
				})
			}
		}
		callers.Wait()
		must(t, p.Close())
	})
}

func TestPoolAttendCache(t *testing.T) {
	shareSmallCalls(t)
	config := CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 16, ValueDim: 16, Capacity: 3*Segment + 5}
	r := random(t.Name())
	c, err := NewCache(config)
	must(t, err)
	m := newTokens(config)
	m.append(t, r, c, config.Capacity)
	q := tensor(r, normal, 2, 4, 1, 16)
	want := nans(2 * 4 * 16)
	must(t, Attend(BHLD(want, 2, 4, 1, 16), q, m.k, m.v, nil))
	for _, n := range []int{1, 2, 7} {
		p := NewPool(n)
		got := nans(2 * 4 * 16)
		must(t, p.AttendCache(BHLD(got, 2, 4, 1, 16), q, c, nil))
		mustEqualBits(t, fmt.Sprintf("%d workers", n), got, want)
		must(t, p.Close())
	}
}

// Close waits for running calls; what comes later is refused.
func TestPoolClose(t *testing.T) {
	c := poolCases(t)[0]
	before := runtime.NumGoroutine()
	p := NewPool(4)
	started := make(chan struct{})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for i := 0; ; i++ {
				dst, _, _ := c.results()
				err := p.Attend(dst, c.q, c.k, c.v, &c.opt)
				if i == 0 {
					started <- struct{}{}
				}
				if err != nil {
					mustFail(t, "Attend", err, ErrClosed)
					return
				}
				if firstDifference(dst.Data, c.want.o) >= 0 {
					t.Error("a call that was running when Close was called has a wrong result")
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	must(t, p.Close())
	callers.Wait()
	mustFail(t, "AttendCache", p.AttendCache(Tensor{}, Tensor{}, new(Cache), nil), ErrClosed)
	mustFail(t, "Close", p.Close(), ErrClosed)
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 1000 {
			t.Fatalf("%d goroutines are left, want %d", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

// Chunks times segments may be more than an int of 32 bits holds: then chunks stay whole.
func TestPoolDoesNotDivideTooMuch(t *testing.T) {
	// 2¹³ chunks of 2¹⁸ segments, if there are enough workers to ask for segments
	const batch, lk = 8192, maxLength
	shareSmallCalls(t)
	pool := NewPool(batch/tuning.TasksPerWorker + 1)
	defer pool.Close()
	one := repeated([]float32{3}, batch, 1, lk, 1)
	q, dst := one, BHLD(nans(batch), batch, 1, 1, 1)
	q.L = 1
	lens := make([]int, batch)
	fillWith(lens, 1)
	must(t, pool.Attend(dst, q, one, one, &Options{KeyLens: lens}))
	for i, e := range dst.Data {
		if e != 3 {
			t.Fatalf("dst[%d] is %v, want the only value, 3", i, e)
		}
	}
}

func TestPoolErrors(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	x := BHLD(make([]float32, 24), 1, 2, 3, 4)
	dst := BHLD(nans(24), 1, 2, 3, 4)
	mustFail(t, "q.D", p.Attend(dst, BHLD(x.Data, 1, 2, 4, 3), x, x, nil), ErrShape)
	mustFail(t, "overlap", p.Attend(x, x, x, x, nil), ErrOverlap)
	for i, e := range dst.Data {
		if e == e {
			t.Errorf("dst[%d] was written by a failed call", i)
		}
	}
	must(t, p.Attend(Tensor{D: 4}, Tensor{D: 4}, Tensor{D: 4}, Tensor{D: 4}, nil))
}

// What is nil is an error that names it, from each method and also without a pool, and does not
// keep Close waiting.
func TestNilArguments(t *testing.T) {
	running := NewPool(2)
	x, dst := zeros(1, 1, 2, 3), BHLD(nans(6), 1, 1, 2, 3)
	m, err := PackMatrix(zeros(1, 1, 5, 7), MatrixConfig{})
	must(t, err)
	state, err := NewState(StateConfig{1, 1, 2, 3})
	must(t, err)
	routes := BHLD([]int32{0}, 1, 1, 1, 1)
	s := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 3, ValueDim: 3, Pages: 2})
	for _, p := range []*Pool{running, nil} {
		for want, errs := range map[string][]error{
			"m is nil, want a matrix": {p.MulMatrix(dst, x, nil, nil),
				(*Matrix)(nil).MatMul(dst, x, nil), (*Matrix)(nil).Rows(dst, nil)},
			"ms[1] is nil, want a matrix": {
				p.MulMatrices([]Tensor{zeros(1, 1, 1, 7), dst}, zeros(1, 1, 1, 5), []*Matrix{m, nil}, nil),
				p.MulExperts(zeros(1, 1, 1, 7), zeros(1, 1, 1, 5), []*Matrix{m, nil}, routes, nil)},
			"c is nil, want a cache": {p.AttendCache(dst, x, nil, nil), p.AppendCache(nil, x, x),
				(*Cache)(nil).Truncate(0)},
			"s is nil, want a sequence":   {p.AppendSequence(nil, x, x), (*Sequence)(nil).Truncate(0)},
			"seq is nil, want a sequence": {p.UpdateSequence(state, x, nil, nil)},
			"seqs[1] is nil, want a sequence": {p.AttendSequences(dst, x, []*Sequence{s, nil}, nil),
				p.UpdateSequences(state, x, []*Sequence{s, nil}, nil)},
			"s is nil, want a state": {p.Update(nil, x, x, x, nil), p.UpdateSequence(nil, x, s, nil),
				p.UpdateSequences(nil, x, []*Sequence{s}, nil), (*State)(nil).Finish(dst, nil)},
			"t is nil, want a state":  {state.Merge(nil)},
			"w is nil, want a Worker": {p.Run(1, nil)},
		} {
			for i, err := range errs {
				mustFail(t, fmt.Sprint(want, ", call ", i), err, ErrOption, want)
			}
		}
	}
	mustBeUntouched(t, dst)
	must(t, running.Close())
}

// A nil receiver is ErrOption, or another error of the other arguments, where there is an error.
func TestNilReceivers(t *testing.T) {
	for _, none := range []any{(*Cache)(nil), (*Sequence)(nil), (*Matrix)(nil), (*State)(nil)} {
		v := reflect.ValueOf(none)
		for i := range v.NumMethod() {
			name, m := v.Type().Method(i).Name, v.Method(i)
			last := m.Type().NumOut() - 1
			if name == "Close" || last < 0 || m.Type().Out(last) != reflect.TypeFor[error]() {
				continue
			}
			var args []reflect.Value
			for a := range m.Type().NumIn() {
				args = append(args, zeroArgument(m.Type().In(a)))
			}
			err, _ := m.Call(args)[last].Interface().(error)
			mustBeOneOf(t, err, ErrOption, ErrShape, ErrClosed)
		}
	}
}

// A pool has no more workers than MaxWorkers, whatever is asked for.
func TestPoolIsBounded(t *testing.T) {
	p := NewPool(math.MaxInt)
	if p.workers.Size() != MaxWorkers {
		t.Errorf("a pool of %d workers has %d, want %d", math.MaxInt, p.workers.Size(), MaxWorkers)
	}
	must(t, p.Close())
}

// A call that is too small to share leaves the workers alone.
func TestPoolSmallCallStaysOnCaller(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	x := zeros(1, 1, 16, 8)
	dst := zeros(1, 1, 16, 8)
	call, err := p.workers.Begin(newWorker)
	must(t, err)
	j := &call.Memory.attention
	j.plan = newPlan(dst, x, x, x, nil)
	must(t, j.plan.init(nil))
	j.attend(call)
	if j.workers != 1 {
		t.Errorf("the call is divided for %d workers, want 1", j.workers)
	}
	j.end(call)
	if cost := j.plan.cost(&tuned); tuned.ISA != tuning.Generic && cost >= tuned.SmallCall {
		t.Errorf("estimated cost is %v ns, want less than %v", cost, tuned.SmallCall)
	}
}

// A pool of 0 workers has as many as the program may use at the same time.
func TestPoolOfAllProcessors(t *testing.T) {
	p := NewPool(0)
	defer p.Close()
	if want := runtime.GOMAXPROCS(0); p.workers.Size() != want {
		t.Errorf("NewPool(0) has %d workers, want GOMAXPROCS = %d", p.workers.Size(), want)
	}
}

func BenchmarkPool(b *testing.B) {
	for _, s := range []struct {
		name   string
		shape  shape
		causal Causal
	}{
		{"prefill_d64", shape{1, 8, 1, 1024, 1024, 64, 64}, Full},
		{"prefill_d64_causal", shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft},
		{"bert", shape{8, 12, 1, 128, 128, 64, 64}, Full},
		{"one_head", shape{1, 1, 1, 512, 512, 64, 64}, TopLeft},
		{"decode_gqa", shape{1, 8, 4, 1, 4096, 128, 128}, Full},
		{"decode_one_head", shape{1, 1, 4, 1, 16384, 128, 128}, Full},
	} {
		call := newProblem(random(s.name), normal, s.shape)
		dst := zeros(call.q.B, call.q.H, call.q.L, call.v.D)
		for _, n := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", s.name, n), func(b *testing.B) {
				p := NewPool(n)
				defer p.Close()
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Attend(dst, call.q, call.k, call.v, &Options{Causal: s.causal}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// Pools and callers at all speeds: calls follow each other before, while and after workers stop
// spinning. Each is computed, none waits for ever, and no goroutine is left.
func TestPoolRhythms(t *testing.T) {
	shareSmallCalls(t)
	cases := poolCases(t)
	before := runtime.NumGoroutine()
	pauses := []time.Duration{0, 0, 0, tuned.Spin / 2, tuned.Spin, 2 * tuned.Spin, time.Millisecond}
	var all sync.WaitGroup
	for n := 2; n <= 5; n++ {
		p := NewPool(n)
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() {
				r := random(fmt.Sprint("rhythms", n, i))
				for range budget(200) {
					if pause := pauses[r.IntN(len(pauses))]; r.IntN(2) == 0 {
						time.Sleep(pause)
					} else {
						compute(pause)
					}
					cases[r.IntN(len(cases))].check(t, fmt.Sprintf("%d workers, caller %d", n, i), p.Attend)
				}
			})
		}
		all.Go(func() { callers.Wait(); must(t, p.Close()) })
	}
	all.Wait()
	untilTrue(t, "the goroutines of closed pools end", func() bool {
		return runtime.NumGoroutine() <= before
	})
}

// untilTrue waits for what happens soon.
func untilTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 5000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s: not within 5 s", what)
}

// Whoever finishes a chunk may have computed none of it, and have been busy with other calls.
func TestPoolFinishesWithAnyScratch(t *testing.T) {
	r := random(t.Name())
	for _, format := range allFormats {
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8,
			Capacity: 2 * Segment, Format: format})
		must(t, err)
		must(t, c.Append(tensor(r, normal, 1, 2, Segment+5, 8), tensor(r, normal, 1, 2, Segment+5, 8)))
		q, dst := tensor(r, normal, 1, 4, 2, 8), zeros(1, 4, 2, 8)
		want, got := nans(4*2), nans(4*2)
		// one query sees a key of the second segment
		opt := &Options{Causal: TopLeft, Offset: Segment - 1, LSE: want}
		must(t, c.Attend(dst, q, opt))
		opt.LSE = got
		j := &attention{plan: newPlan(dst, q, Tensor{}, Tensor{}, opt)}
		must(t, c.plan(&j.plan, opt))
		if j.schedule(3); j.segments != 2 {
			t.Fatalf("the call has %d segments, want 2", j.segments)
		}
		for i := range j.tasks {
			w := new(worker)
			j.Begin(w)
			j.Task(w, i)
		}
		mustEqualBits(t, "LSE", got, want)
		must(t, c.Close())
	}
}

// workOf makes a Worker of a function.
type workOf func(part int)

func (f workOf) Work(part int) { f(part) }

// counts is how often each part was done.
type counts []atomic.Int32

func (c counts) Work(part int) { c[part].Add(1) }

// goroutineName tells goroutines apart: "goroutine 7 ".
func goroutineName() string {
	var text [64]byte
	name, _, _ := bytes.Cut(text[:runtime.Stack(text[:], false)], []byte("["))
	return string(name)
}

// Each part is done once, by any number of workers, and its writes are seen after Run.
func TestRunDoesEachPartOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 64} {
		var p *Pool
		if n > 0 {
			p = NewPool(n)
		}
		for _, parts := range []int{0, 1, 2, 3, 64, 1000} {
			done, plain := make(counts, parts), make([]int, parts)
			must(t, p.Run(parts, done))
			must(t, p.Run(parts, workOf(func(part int) { plain[part]++ })))
			for i := range done {
				if got := done[i].Load(); got != 1 || plain[i] != 1 {
					t.Fatalf("%d workers: part %d of %d was done %d and %d times", n, i, parts, got, plain[i])
				}
			}
		}
		must(t, p.Run(0, nil))
		mustFail(t, "parts", p.Run(-1, make(counts, 0)), ErrOption, "parts is -1, want at least 0")
		must(t, p.Close())
	}
}

// Without a pool, parts are done in order.
func TestRunOfNilPoolIsInOrder(t *testing.T) {
	var order []int
	must(t, (*Pool)(nil).Run(5, workOf(func(part int) { order = append(order, part) })))
	if fmt.Sprint(order) != "[0 1 2 3 4]" {
		t.Errorf("parts were done in the order %v", order)
	}
}

// paused is work whose parts are at work together, and of which one misbehaves on the goroutine of
// the caller, or on another.
type paused struct {
	caller   string
	onCaller bool
	act      func()
	all      sync.WaitGroup // parts that have begun
	working  atomic.Int32
}

func (x *paused) Work(int) {
	x.working.Add(1)
	defer x.working.Add(-1)
	x.all.Done()
	x.all.Wait()
	if x.act != nil && (goroutineName() == x.caller) == x.onCaller {
		x.act()
	}
	time.Sleep(time.Millisecond) // so that others are at work
}

// A panic of a part is raised in the caller with its value, once no part is at work; a part that
// ends its goroutine ends the caller's. Then the pool goes on with as many workers.
func TestRunRaisesPanics(t *testing.T) {
	cause := errors.New("cause")
	p := NewPool(3)
	before := runtime.NumGoroutine()
	for _, onCaller := range []bool{true, false} {
		for name, act := range map[string]func(){
			"a string": func() { panic("value") },
			"an error": func() { panic(cause) },
			"nil":      func() { panic(nil) },
			"Goexit":   func() { runtime.Goexit() },
		} {
			what := fmt.Sprintf("%s, on the caller: %t", name, onCaller)
			var value any
			returned := false
			var caller sync.WaitGroup
			caller.Go(func() {
				x := &paused{caller: goroutineName(), onCaller: onCaller, act: act}
				x.all.Add(p.workers.Size())
				defer func() {
					value = recover()
					if n := x.working.Load(); n != 0 {
						t.Errorf("%s: %d parts are at work", what, n)
					}
				}()
				_ = p.Run(p.workers.Size(), x)
				returned = true
			})
			caller.Wait()
			var want any
			switch name {
			case "a string":
				want = "value"
			case "an error":
				want = cause
			case "nil":
				if _, ok := value.(*runtime.PanicNilError); ok {
					want = value
				}
			}
			if returned || value != want {
				t.Errorf("%s: Run returned: %t, its panic was %v, want %v", what, returned, value, want)
			}
			together := new(paused)
			together.all.Add(p.workers.Size())
			must(t, p.Run(p.workers.Size(), together)) // waits for ever for a worker that is no more
		}
	}
	must(t, p.Close())
	untilTrue(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() < before })
}

// After a panic parts that nobody has taken are not done, however many there are.
func TestRunStopsAfterPanic(t *testing.T) {
	const many = int(^uint(0) >> 1)
	for _, n := range []int{0, 1, 3} {
		var p *Pool
		if n > 0 {
			p = NewPool(n)
		}
		for range 10 {
			var done atomic.Int64
			func() {
				defer func() {
					if value := recover(); value != "enough" {
						t.Errorf("panic of %v", value)
					}
				}()
				_ = p.Run(many, workOf(func(int) {
					if done.Add(1) >= 1000 {
						panic("enough")
					}
				}))
			}()
			if done.Load() > 1000+64 {
				t.Errorf("%d workers: %d parts were done", n, done.Load())
			}
		}
		must(t, p.Close())
	}
}

// Work uses its pool, and waits for goroutines that use it, from any number of callers.
func TestRunUsesItsPool(t *testing.T) {
	shareSmallCalls(t)
	cases := poolCases(t)
	for _, n := range []int{1, 2, 4} {
		p := NewPool(n)
		work := func(part int) {
			c := cases[part%len(cases)]
			switch part % 3 {
			case 0:
				c.check(t, "inside a part", p.Attend)
			case 1:
				var other sync.WaitGroup
				other.Go(func() { c.check(t, "beside a part", p.Attend) })
				other.Go(func() {
					done := make(counts, 20)
					must(t, p.Run(len(done), done))
				})
				other.Wait()
			default:
				done := make(counts, 7)
				must(t, p.Run(2, workOf(func(int) { must(t, p.Run(len(done), done)) })))
				for i := range done {
					if done[i].Load() != 2 {
						t.Errorf("part %d was done %d times, want 2", i, done[i].Load())
					}
				}
			}
		}
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() { must(t, p.Run(budget(30), workOf(work))) })
		}
		callers.Wait()
		must(t, p.Close())
	}
}

// A panic goes through calls within calls, and through one that a helper shares.
func TestRunPanicsThroughRuns(t *testing.T) {
	p := NewPool(3)
	for range 50 {
		func() {
			defer func() {
				if value := recover(); value != 5 {
					t.Errorf("panic of %v, want 5", value)
				}
			}()
			_ = p.Run(4, workOf(func(int) {
				_ = p.Run(9, workOf(func(part int) {
					if part == 5 {
						panic(part)
					}
				}))
			}))
			t.Error("Run returned")
		}()
	}
	must(t, p.Close())
}

// Close waits for Run; one that comes later is refused, even for no parts.
func TestCloseWaitsForRun(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := NewPool(n)
		begun, end := make(chan struct{}, 2), make(chan struct{})
		var over atomic.Bool
		go func() {
			must(t, p.Run(2, workOf(func(int) {
				begun <- struct{}{}
				<-end
			})))
			over.Store(true)
		}()
		<-begun
		closed := make(chan bool)
		go func() {
			must(t, p.Close())
			closed <- over.Load()
		}()
		untilTrue(t, "Close has begun", func() bool { return errors.Is(p.Run(0, nil), ErrClosed) })
		close(end)
		if !<-closed { // p.Run returns after it was counted as over, so that over may come later
			untilTrue(t, "Run returns", over.Load)
		}
		for _, parts := range []int{0, 1, 5, -1} {
			done := make(counts, 5)
			mustFail(t, "Run", p.Run(parts, done), ErrClosed, "the pool was closed")
			for i := range done {
				if done[i].Load() != 0 {
					t.Errorf("a closed pool has done part %d", i)
				}
			}
		}
	}
}

// together is parts that wait until all of them are done by somebody.
type together struct {
	came  sync.WaitGroup
	parts atomic.Int32
}

func (x *together) Work(int) {
	x.parts.Add(1)
	x.came.Done()
	x.came.Wait()
}

// A call wakes few workers by itself, and yet all come.
func TestWorkersWakeWorkers(t *testing.T) {
	const size = 70
	p := NewPool(size)
	defer p.Close()
	for range 20 {
		x := new(together)
		x.came.Add(size)
		must(t, p.Run(size, x))
		if n := x.parts.Load(); n != size {
			t.Fatalf("%d parts were done, want %d", n, size)
		}
	}
}

// Workers write the bytes of Append, from any position, to caches and sequences of every format; a
// nil pool does, too. What Append refuses changes nothing.
func TestPoolAppends(t *testing.T) {
	r := random(t.Name())
	for _, f := range allFormats {
		for _, p := range []*Pool{threeWorkers(), nil} {
			config := CacheConfig{Batch: 2, KVHeads: 3, HeadDim: 64, ValueDim: 32, Capacity: 9 * Block,
				Format: f}
			one, err := NewCache(config)
			must(t, err)
			all, err := NewCache(config)
			must(t, err)
			g := StoreConfig{KVHeads: 3, HeadDim: 64, ValueDim: 32, Pages: 20, Format: f}
			s := sequenceOf(t, g)
			u := s.store.NewSequence()
			for _, n := range []int{0, 5, 3 * Block, 1, Block - 6, 4*Block - 9} {
				k, v := tensor(r, normal, 2, 3, n, 64), tensor(r, normal, 2, 3, n, 32)
				must(t, one.Append(k, v))
				must(t, p.AppendCache(all, k, v))
				k.B, v.B = 1, 1
				must(t, s.Append(k, v))
				must(t, p.AppendSequence(u, k, v))
			}
			k, v := tensor(r, normal, 2, 3, 2*Block, 64), tensor(r, normal, 2, 3, 2*Block, 32)
			if err := p.AppendCache(all, k, v); !errors.Is(err, ErrCapacity) {
				t.Errorf("too many tokens: %v", err)
			}
			if err := p.AppendSequence(u, k, v); !errors.Is(err, ErrShape) {
				t.Errorf("two batch entries: %v", err)
			}
			mustEqualFiles(t, "cache", cacheFileOf(t, all), cacheFileOf(t, one))
			mustEqualFiles(t, "sequence", fileOf(t, u), fileOf(t, s))
			must(t, one.Close())
			must(t, all.Close())
		}
	}
	closed := NewPool(2)
	must(t, closed.Close())
	c, s := new(Cache), sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 2})
	mustFail(t, "cache", closed.AppendCache(c, Tensor{}, Tensor{}), ErrClosed, "the pool was closed")
	mustFail(t, "sequence", closed.AppendSequence(s, zeros(1, 1, 1, 8), zeros(1, 1, 1, 8)), ErrClosed,
		"the pool was closed")
	if s.Len() != 0 {
		t.Errorf("a closed pool appended %d tokens", s.Len())
	}
}
