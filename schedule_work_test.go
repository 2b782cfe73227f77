package attn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a Pool of many workers would take, without having them: a call is divided as for so many,
// its units are computed one after another on one core, and their times are played onto workers.

// workCase is a call as attn bench has it, of which a test makes the job.
type workCase struct {
	name string
	job  func(j *job) // without its division
}

// divided is the call for some workers.
func (c *workCase) divided(workers int) *dividedCall {
	d := &dividedCall{new(job), workers}
	c.job(d.j)
	return d
}

// dividedCall is the units of a call, divided for some workers.
type dividedCall struct {
	j       *job
	workers int
}

// phases computes all units of a call, one after another, and brings times, of phases that follow
// each other, to what each unit has taken at least.
func (c *dividedCall) phases(times [][]time.Duration) [][]time.Duration {
	j, at := c.j, 0
	timed := func(units int, unit func(i int)) {
		if units == 0 {
			return
		}
		if at == len(times) {
			times = append(times, slices.Repeat([]time.Duration{1 << 62}, units))
		}
		for i := range units {
			start := time.Now()
			unit(i)
			times[at][i] = min(times[at][i], time.Since(start))
		}
		at++
	}
	phase := func(kind workKind, units int) {
		j.kind, j.units = kind, units
		if kind <= updateWork {
			j.scratch.fit(&j.plan)
		}
		timed(units, func(i int) { j.unit(&j.scratch, i) })
	}
	switch {
	case len(j.products.ms) > 0:
		q := &j.products
		x := &q.inputs
		part, ok := x.part(), false
		for *x, ok = x.next(&j.scratch, part); ok; *x, ok = x.next(&j.scratch, part) {
			q.take()
			if q.own = x.short(); q.own { // as a phase of which each worker has a unit
				timed(c.workers, func(int) { q.begin(&j.scratch) })
			} else {
				phase(prepareWork, x.divide(c.workers))
			}
			phase(productWork, q.partition(c.workers))
		}
	case !j.multiplication.dst.empty():
		j.multiplication.partition(c.workers)
		phase(multiplyWork, j.multiplication.units())
	default:
		j.schedule(c.workers)
		phase(attendWork, j.units)
	}
	return times
}

// played is how long workers take for units of some times, each taking the next one when it is
// done with one, phase by phase.
func played(phases [][]time.Duration, workers int) (all time.Duration) {
	for _, units := range phases {
		free := make([]time.Duration, workers)
		for _, t := range units {
			i := 0
			for k := range free {
				if free[k] < free[i] {
					i = k
				}
			}
			free[i] += t
		}
		all += slices.Max(free)
	}
	return all
}

func sumOf(phases [][]time.Duration) (all time.Duration) {
	for _, units := range phases {
		for _, t := range units {
			all += t
		}
	}
	return all
}

// workCases are those of attn bench, and matrices of floats.
func workCases(tb testing.TB) (all []workCase) {
	r := random("work")
	attend := func(name string, b, h, kvh, lq, lk, d, dv int, opt Options, keys, values Format,
		cached bool) {
		q, dst := tensor(r, normal, b, h, lq, d), zeros(b, h, lq, dv)
		k, v := tensor(r, normal, b, kvh, lk, d), tensor(r, normal, b, kvh, lk, dv)
		o := &opt
		if !cached {
			all = append(all, workCase{name, func(j *job) {
				j.plan = newPlan(dst, q, k, v, o)
				must(tb, j.plan.init(o))
			}})
			return
		}
		config := CacheConfig{Batch: b, KVHeads: kvh, HeadDim: d, ValueDim: dv, Capacity: lk,
			Format: keys, ValueFormat: values, ValuesInKeys: dv < d}
		c, err := NewCache(config)
		must(tb, err)
		if dv < d {
			v = Tensor{}
		}
		must(tb, c.Append(k, v))
		all = append(all, workCase{name, func(j *job) {
			j.plan = newPlan(dst, q, Tensor{}, Tensor{}, o)
			must(tb, c.plan(&j.plan, o))
		}})
	}
	for _, integers := range []bool{false, true} {
		opt, causal := Options{Integers: integers}, Options{Integers: integers, Causal: TopLeft}
		suffix := ""
		if integers {
			suffix = ", integers"
		}
		attend("prefill_d64"+suffix, 1, 8, 8, 1024, 1024, 64, 64, opt, 0, 0, false)
		attend("prefill_d64_causal"+suffix, 1, 8, 8, 1024, 1024, 64, 64, causal, 0, 0, false)
		attend("prefill_d128"+suffix, 1, 8, 8, 2048, 2048, 128, 128, opt, 0, 0, false)
		attend("prefill_d128_causal"+suffix, 1, 8, 8, 2048, 2048, 128, 128, causal, 0, 0, false)
		attend("bert"+suffix, 8, 12, 12, 128, 128, 64, 64, opt, 0, 0, false)
		if !integers {
			attend("decode", 1, 32, 32, 1, 4096, 128, 128, opt, 0, 0, false)
			attend("decode_gqa", 1, 32, 8, 1, 4096, 128, 128, opt, 0, 0, false)
		}
		for _, f := range []Format{F32, F16, BF16, I8, I4} {
			if integers && f < I8 {
				continue
			}
			attend(fmt.Sprintf("decode, %v%s", f, suffix), 1, 32, 32, 1, 4096, 128, 128, opt, f, f, true)
			attend(fmt.Sprintf("decode_gqa, %v%s", f, suffix), 1, 32, 8, 1, 4096, 128, 128, opt, f, f, true)
			if f == F32 || f == BF16 || f == I8 {
				attend(fmt.Sprintf("mla, %v%s", f, suffix), 1, 128, 1, 1, 8192, 576, 512, opt, f, f, true)
			}
		}
	}
	const n = 4096
	w := tensor(r, normal, 1, 1, n, n)
	multiply := func(name string, m *Matrix, rows ...int) {
		for _, l := range rows {
			dst, a := zeros(1, 1, l, n), tensor(r, normal, 1, 1, l, n)
			all = append(all, workCase{fmt.Sprintf("matrix %s, %d rows", name, l), func(j *job) {
				j.products.set([]Tensor{dst}, []*Matrix{m}, nil)
				j.products.inputs = inputsOf(a, []*Matrix{m})
			}})
		}
	}
	for _, f := range []Format{F32, BF16} {
		m, err := PackMatrix(w, MatrixConfig{Format: f})
		must(tb, err)
		multiply(f.String(), m, 1, 4, 128, 512)
	}
	for _, typ := range []BlockType{Q8_0, Q4_0, Q4_K, Q6_K} {
		m, err := PackBlocks(ordinaryBlocks(r, typ, n, n), typ, n, n, MatrixConfig{Integers: true})
		must(tb, err)
		multiply(typ.String(), m, 1, 4, 128, 512)
	}
	dst, a := zeros(1, 1, 512, n), tensor(r, normal, 1, 1, 512, n)
	all = append(all, workCase{"MatMul, 512 rows", func(j *job) {
		j.multiplication = multiplication{dst: dst, a: a, b: w}
		must(tb, j.multiplication.check())
	}})
	return all
}

// unitWork is what the units of a call of Attend take by the estimate of operations, in rows of all
// keys, what is done for each chunk again included.
func unitWork(j *job) (units []time.Duration) {
	p := &j.plan
	for i := range j.units {
		var c chunk
		at, segment, segments := j.chunkOf(i)
		p.chunk(at, &c)
		flops, _ := p.work(&c, 0)
		flops *= float64(c.rows+p.againRows()) / float64(c.rows)
		if segments > 1 {
			seen := min(c.hi, (segment+1)*Segment) - max(c.lo, segment*Segment)
			flops *= float64(max(0, seen)) / float64(c.hi-c.lo)
		}
		units = append(units, time.Duration(flops/1000))
	}
	return units
}

// By the estimate of operations many workers take little longer than their share of a long call:
// prefill, causal or not, few long heads, and one latent vector for all heads.
func TestSharesOfManyWorkers(t *testing.T) {
	for _, c := range []struct {
		h, kvh, lq, lk, d int
		causal            Causal
		most              int // workers
	}{
		{8, 8, 1024, 1024, 64, Full, 32}, {8, 8, 1024, 1024, 64, TopLeft, 16},
		{8, 8, 2048, 2048, 128, Full, 128}, {8, 8, 2048, 2048, 128, TopLeft, 64},
		{32, 8, 512, 4096, 128, BottomRight, 64}, {3, 3, 1000, 1000, 64, Full, 16},
		{12, 12, 384, 384, 64, Full, 16}, {7, 1, 1100, 5000, 64, BottomRight, 32},
	} {
		q, dst := zeros(1, c.h, c.lq, c.d), zeros(1, c.h, c.lq, c.d)
		k, v := zeros(1, c.kvh, c.lk, c.d), zeros(1, c.kvh, c.lk, c.d)
		call := func(workers int) [][]time.Duration {
			opt, j := &Options{Causal: c.causal}, new(job)
			j.plan = newPlan(dst, q, k, v, opt)
			must(t, j.plan.init(opt))
			j.schedule(workers)
			return [][]time.Duration{unitWork(j)}
		}
		for _, workers := range []int{2, 3, 4, 6, 8, 12, 15, 16, 24, 31, 32, 48, 64, 96, 128} {
			if workers > c.most {
				break
			}
			r := float64(workers) * float64(played(call(workers), workers)) / float64(sumOf(call(1)))
			if r > 1.25 {
				t.Errorf("%+v: %d workers take %.2f times their share", c, workers, r)
			}
		}
	}
}

// BenchmarkDivision is, for calls of so many workers that each has 300 µs of work, the time of all
// units on one core over that of the call by one worker (work), and how long so many workers would
// take over their share of that (span).
func BenchmarkDivision(b *testing.B) {
	for _, c := range workCases(b) {
		for workers := 2; workers <= 128; workers *= 2 {
			b.Run(fmt.Sprintf("%s/workers=%d", strings.ReplaceAll(c.name, ", ", "/"), workers),
				func(b *testing.B) {
					one, many := c.divided(1), c.divided(workers)
					var base, times [][]time.Duration
					for b.Loop() {
						if base = one.phases(base); sumOf(base) < time.Duration(workers)*300*time.Microsecond {
							b.Skip("less than 300 µs a worker")
						}
						times = many.phases(times)
					}
					all := float64(sumOf(base))
					b.ReportMetric(float64(sumOf(times))/all, "work")
					b.ReportMetric(float64(workers)*float64(played(times, workers))/all, "span")
				})
		}
	}
}
