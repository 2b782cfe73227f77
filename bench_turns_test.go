package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// ratio times two functions in turns and reports the ratio of their medians, and the ratio of their
// minima.
func ratio(b *testing.B, way, other func() error) { ratioInTurns(b, 1, way, other) }

// ratioInTurns is ratio with turns of some calls.
func ratioInTurns(b *testing.B, calls int, way, other func() error) {
	var times [2][]float64
	for i := 0; b.Loop(); i++ {
		for j := range 2 * calls {
			at := (i + j/calls) % 2
			call := []func() error{way, other}[at]
			start := time.Now()
			if err := call(); err != nil {
				b.Fatal(err)
			}
			times[at] = append(times[at], float64(time.Since(start)))
		}
	}
	b.ReportMetric(measure.Median(times[0])/measure.Median(times[1]), "median-ratio")
	b.ReportMetric(slices.Min(times[0])/slices.Min(times[1]), "min-ratio")
	b.ReportMetric(measure.Median(times[0]), "median-ns")
}

// filledSequence is a sequence with n random tokens.
func filledSequence(b *testing.B, s *Sequence, n int) *Sequence {
	g := &s.store.config
	must(b, s.Append(tensor(random("k"), normal, 1, g.KVHeads, n, g.HeadDim),
		tensor(random("v"), normal, 1, g.KVHeads, n, g.ValueDim)))
	return s
}

// BenchmarkSequencesOverCache is a call over one sequence, over the same call of a Cache.
func BenchmarkSequencesOverCache(b *testing.B) {
	for _, kind := range allFormats {
		for _, c := range []struct{ heads, kv, lq, lk int }{{32, 32, 1, 4096}, {32, 8, 1, 4096},
			{8, 8, 512, 1024}, {8, 8, 1, 100}} {
			b.Run(fmt.Sprintf("type=%v/H=%d/KVH=%d/Lq=%d/Lk=%d", kind, c.heads, c.kv, c.lq, c.lk),
				func(b *testing.B) {
					cache, err := NewCache(CacheConfig{Batch: 1, KVHeads: c.kv, HeadDim: 128, ValueDim: 128,
						Capacity: c.lk, Format: kind})
					must(b, err)
					store, err := NewStore(StoreConfig{KVHeads: c.kv, HeadDim: 128, ValueDim: 128,
						Pages: (c.lk + Block - 1) / Block, Format: kind})
					must(b, err)
					s := filledSequence(b, store.NewSequence(), c.lk)
					x := tensor(random("k"), normal, 1, c.kv, c.lk, 128)
					must(b, cache.Append(x, x))
					q, dst := tensor(random("q"), normal, 1, c.heads, c.lq, 128), zeros(1, c.heads, c.lq, 128)
					opt, seqs := Options{Causal: BottomRight, QueryLens: []int{c.lq}}, []*Sequence{s}
					ratio(b, func() error { return AttendSequences(dst, q, seqs, &opt) },
						func() error { return cache.Attend(dst, q, &Options{Causal: BottomRight}) })
				})
		}
	}
}

// BenchmarkSequencesShared is one new token each for 16 sequences that share 4096 tokens and have
// 64 of their own, over the same without sharing: one call for each sequence.
func BenchmarkSequencesShared(b *testing.B) {
	const n, shared, own, heads = 16, 4096, 64, 32
	for _, way := range []struct {
		kind Format
		int8 bool
	}{{F32, false}, {I8, false}, {I8, true}} {
		b.Run(fmt.Sprintf("type=%v/int8=%v", way.kind, way.int8), func(b *testing.B) {
			store, err := NewStore(StoreConfig{KVHeads: heads, HeadDim: 128, ValueDim: 128,
				Pages: shared/Block + 2*n, Format: way.kind})
			must(b, err)
			prompt, seqs := filledSequence(b, store.NewSequence(), shared), []*Sequence{}
			for range n {
				seqs = append(seqs, filledSequence(b, prompt.Fork(), own+1))
			}
			q, dst := tensor(random("q"), normal, 1, heads, n, 128), zeros(1, heads, n, 128)
			opt := Options{Causal: BottomRight, Integers: way.int8}
			ratio(b, func() error { return AttendSequences(dst, q, seqs, &opt) }, func() error {
				for i := range seqs {
					if err := AttendSequences(rowsOf(dst, i, 1), rowsOf(q, i, 1), seqs[i:][:1], &opt); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkSequencesTwoWorkers is one new token each for 8 sequences of 180 to 700 keys, on one
// worker over two: in turns of one call, for which the second worker has to be woken each time, and
// of several.
func BenchmarkSequencesTwoWorkers(b *testing.B) {
	pool := NewPool(2)
	defer pool.Close()
	for _, kind := range allFormats {
		for _, calls := range []int{1, 10} {
			b.Run(fmt.Sprintf("type=%v/turns=%d", kind, calls), func(b *testing.B) {
				store, err := NewStore(StoreConfig{KVHeads: 8, HeadDim: 128, ValueDim: 128, Pages: 100,
					Format: kind})
				must(b, err)
				var seqs []*Sequence
				for i := range 8 {
					seqs = append(seqs, filledSequence(b, store.NewSequence(), 180+520*i/7))
				}
				q, dst := tensor(random("q"), normal, 1, 16, 8, 128), zeros(1, 16, 8, 128)
				opt := Options{Causal: BottomRight}
				ratioInTurns(b, calls, func() error {
					return AttendSequences(dst, q, seqs, &opt)
				}, func() error { return pool.AttendSequences(dst, q, seqs, &opt) })
			})
		}
	}
}

// BenchmarkInt8 compares calls in integers with those in float32, in turns.
func BenchmarkInt8(b *testing.B) {
	r := random(b.Name())
	for _, s := range []struct {
		name   string
		shape  shape
		causal Causal
	}{
		{"prefill/d=64", shape{1, 8, 1, 1024, 1024, 64, 64}, Full},
		{"prefill/d=64/causal", shape{1, 8, 1, 1024, 1024, 64, 64}, BottomRight},
		{"prefill/d=128", shape{1, 8, 1, 2048, 2048, 128, 128}, Full},
		{"bert", shape{8, 12, 1, 128, 128, 64, 64}, Full},
		{"text", shape{1, 12, 1, 16, 16, 32, 32}, Full},
	} {
		p := newProblem(r, normal, s.shape)
		dst, _, _ := p.results()
		b.Run(s.name, func(b *testing.B) {
			ratio(b, func() error {
				return Attend(dst, p.q, p.k, p.v, &Options{Causal: s.causal, Integers: true})
			}, func() error { return Attend(dst, p.q, p.k, p.v, &Options{Causal: s.causal}) })
		})
	}
	for _, group := range []int{1, 4} {
		p := newProblem(r, normal, shape{1, 32 / group, group, 1, 4096, 128, 128})
		caches := map[Format]*Cache{}
		for _, f := range []Format{F32, I8} {
			c, err := filledIn(f, p.k, p.v)
			must(b, err)
			caches[f] = c
		}
		dst, _, _ := p.results()
		b.Run(fmt.Sprintf("decode/group=%d", group), func(b *testing.B) {
			ratio(b, func() error { return caches[I8].Attend(dst, p.q, &Options{Integers: true}) },
				func() error { return caches[F32].Attend(dst, p.q, nil) })
		})
	}
	w := tensor(r, normal, 1, 1, 4096, 4096)
	floats, err := PackMatrix(w, MatrixConfig{Transposed: true})
	must(b, err)
	ints, err := PackMatrix(w, MatrixConfig{Format: I8, Integers: true, Transposed: true})
	must(b, err)
	for _, rows := range []int{1, 4, 128, 512} {
		dst, a := zeros(1, 1, rows, 4096), tensor(r, normal, 1, 1, rows, 4096)
		b.Run(fmt.Sprintf("matrix/rows=%d", rows), func(b *testing.B) {
			ratio(b, func() error { return ints.MatMul(dst, a, nil) },
				func() error { return floats.MatMul(dst, a, nil) })
		})
	}
}

// BenchmarkTiles compares products in integers by tiles of AMX with those without, in turns. A
// static binary of the tests, by CGO_ENABLED=0 go test -c, measures them on a machine without Go.
func BenchmarkTiles(b *testing.B) {
	if !tuned.AMX {
		b.Skip("no tiles here: " + tuning.HostTiles().Why)
	}
	defer func() { tuned.AMX = true }()
	compare := func(name string, call func() error) {
		with := func(tiles bool) func() error {
			return func() error { tuned.AMX = tiles; return call() }
		}
		b.Run(name, func(b *testing.B) { ratio(b, with(true), with(false)) })
	}
	r := random(b.Name())
	for _, s := range []struct {
		name   string
		shape  shape
		causal Causal
	}{
		{"prefill/d=64", shape{1, 8, 1, 1024, 1024, 64, 64}, Full},
		{"prefill/d=64/causal", shape{1, 8, 1, 1024, 1024, 64, 64}, BottomRight},
		{"prefill/d=128", shape{1, 8, 1, 2048, 2048, 128, 128}, Full},
		{"prefill/d=128/causal", shape{1, 8, 1, 2048, 2048, 128, 128}, BottomRight},
		{"bert", shape{8, 12, 1, 128, 128, 64, 64}, Full},
	} {
		p := newProblem(r, normal, s.shape)
		dst, _, _ := p.results()
		compare(s.name, func() error {
			return Attend(dst, p.q, p.k, p.v, &Options{Causal: s.causal, Integers: true})
		})
	}
	const n = 4096
	multiply := func(name string, m *Matrix, err error) {
		must(b, err)
		for _, rows := range []int{16, 128, 512} {
			dst, a := zeros(1, 1, rows, n), tensor(r, normal, 1, 1, rows, n)
			compare(fmt.Sprintf("%s/rows=%d", name, rows), func() error { return m.MatMul(dst, a, nil) })
		}
		must(b, m.Close())
	}
	m, err := PackMatrix(tensor(r, normal, 1, 1, n, n), MatrixConfig{Format: I8, Integers: true,
		Transposed: true})
	multiply("I8", m, err)
	for _, typ := range integerBlockTypes {
		m, err := PackBlocks(ordinaryBlocks(r, typ, n, n), typ, n, n, MatrixConfig{Integers: true})
		multiply(typ.String(), m, err)
	}
}

// BenchmarkBlocks compares products by matrices of blocks, in integers, with those by a matrix of
// float32, in turns; with each implementation of this machine that has kernels.
func BenchmarkBlocks(b *testing.B) { benchmarkBlocks(b, MatrixConfig{Integers: true}) }

// BenchmarkBlocksInFloat32 is that without Integers.
func BenchmarkBlocksInFloat32(b *testing.B) { benchmarkBlocks(b, MatrixConfig{}) }

func benchmarkBlocks(b *testing.B, c MatrixConfig) {
	const n = 4096
	r := random(b.Name())
	floats, err := PackMatrix(tensor(r, normal, 1, 1, n, n), MatrixConfig{Transposed: true})
	must(b, err)
	for _, typ := range integerBlockTypes {
		m, err := PackBlocks(ordinaryBlocks(r, typ, n, n), typ, n, n, c)
		must(b, err)
		for _, isa := range implementations()[:len(implementations())-1] {
			for _, rows := range []int{1, 4, 128, 512} {
				dst, a := zeros(1, 1, rows, n), tensor(r, normal, 1, 1, rows, n)
				b.Run(fmt.Sprintf("%v/%v/rows=%d", typ, isa, rows), func(b *testing.B) {
					use(b, isa)
					ratio(b, func() error { return m.MatMul(dst, a, nil) },
						func() error { return floats.MatMul(dst, a, nil) })
				})
			}
		}
		must(b, m.Close())
	}
	must(b, floats.Close())
}

// coldMatrices is more than three times what the L3 cache of a large server holds for a guest.
const coldMatrices = 1 << 30

// fewRowsShapes are inputs and outputs of projections of models.
var fewRowsShapes = [][2]int{{896, 128}, {896, 3072}, {1024, 1024}, {1024, 3072}, {1024, 14336},
	{2048, 128}, {2048, 3072}, {3072, 3072}, {4096, 4096}, {8192, 1024}, {8192, 3072}}

// BenchmarkFewRows multiplies a few rows by matrices of blocks that are in no cache: calls cycle
// through copies. In turns with the calls as many bytes are only read; the per cent is of that
// rate, and all rates are of the bytes of a matrix.
func BenchmarkFewRows(b *testing.B) {
	arena, err := memory.Allocate(coldMatrices)
	must(b, err)
	defer arena.Close()
	fill := arena.Bytes()
	for i := range fill { // pages exist
		fill[i] = byte(i)
	}
	for _, c := range blockConfigs[1:] {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("bfloat16=%v/workers=%d", c.BFloat16, workers), func(b *testing.B) {
				pool := NewPool(workers)
				benchmarkFewRows(b, pool, c, arena)
				must(b, pool.Close())
			})
		}
	}
}

func benchmarkFewRows(b *testing.B, pool *Pool, c MatrixConfig, arena *memory.Mapping) {
	for _, typ := range integerBlockTypes {
		for _, s := range fewRowsShapes {
			if s[0]%traitsOf(typ).Inputs != 0 {
				continue
			}
			m, err := PackBlocks(ordinaryBlocks(random("few"), typ, s[1], s[0]), typ, s[1], s[0], c)
			must(b, err)
			for _, isa := range implementations()[:len(implementations())-1] {
				for _, rows := range []int{1, 2, 4, 8} {
					b.Run(fmt.Sprintf("%v/%v/K=%d/N=%d/rows=%d", typ, isa, s[0], s[1], rows),
						func(b *testing.B) {
							use(b, isa)
							benchmarkCold(b, pool, m, arena, rows)
						})
				}
			}
			must(b, m.Close())
		}
	}
}

// benchmarkCold goes through copies of a matrix in the arena.
func benchmarkCold(b *testing.B, pool *Pool, m *Matrix, room *memory.Mapping, rows int) {
	size, arena := len(m.body.Elements()), room.Bytes()
	var copies []*Matrix
	for at := 0; at+size <= len(arena); at += (size + 63) / 64 * 64 {
		copies = append(copies, copyIn(m, room, arena[at:][:size]))
	}
	_, _, inputs, outputs := m.Dims()
	dst, a := zeros(1, 1, rows, outputs), tensor(random("few"), normal, 1, 1, rows, inputs)
	var times, reads []float64
	calls := max(16, (4<<20)/size) // workers expect the next one
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		for range calls {
			must(b, pool.MulMatrix(dst, a, copies[i%len(copies)], nil))
			i++
		}
		times = append(times, float64(time.Since(start))/float64(calls))
		start = time.Now()
		at := i % len(copies) * size
		at = min(at, len(arena)-calls*size) &^ 63
		readAll(arena[at:][:calls*size])
		reads = append(reads, float64(time.Since(start))/float64(calls))
		i += calls
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(size)/measure.Median(times), "GB/s")
	b.ReportMetric(float64(size)/measure.Median(reads), "reading-GB/s")
	b.ReportMetric(100*measure.Median(reads)/measure.Median(times), "percent")
	b.ReportMetric(measure.Median(times)/1000, "µs")
}

// BenchmarkTogether is products of one row by small matrices that lie together in huge pages, in
// turns with the same where each has memory of its own, and with reading them.
func BenchmarkTogether(b *testing.B) {
	for _, typ := range []BlockType{Q8_0, Q4_K, Q4_0} {
		for _, s := range [][2]int{{1024, 128}, {1024, 1024}, {1024, 2048}, {1024, 3072}, {2048, 1024}} {
			m, err := PackBlocks(ordinaryBlocks(random("together"), typ, s[1], s[0]), typ, s[1], s[0],
				MatrixConfig{Integers: true})
			must(b, err)
			own := copiesOf(b, m, memory.Allocate)
			together := copiesOf(b, m, memory.AllocateTogether)
			b.Run(fmt.Sprintf("%v/K=%d/N=%d", typ, s[0], s[1]), func(b *testing.B) {
				benchmarkTogether(b, own, together)
			})
			for _, m := range slices.Concat(own, together, []*Matrix{m}) {
				must(b, m.Close())
			}
		}
	}
}

// copiesOf is more copies of a matrix than caches hold.
func copiesOf(b *testing.B, m *Matrix, allocate func(int) (*memory.Mapping, error)) []*Matrix {
	size := len(m.body.Elements())
	copies := make([]*Matrix, coldMatrices/size)
	for i := range copies {
		room, err := allocate(size)
		must(b, err)
		copies[i] = copyIn(m, room, room.Bytes())
	}
	return copies
}

// copyIn is a copy of a matrix without scales, in a part of other memory.
func copyIn(m *Matrix, room *memory.Mapping, elements []byte) *Matrix {
	c := *m
	copy(elements, m.body.Elements())
	c.body.Use(room, elements, nil)
	return &c
}

func benchmarkTogether(b *testing.B, own, together []*Matrix) {
	_, _, inputs, outputs := own[0].Dims()
	dst, a := zeros(1, 1, 1, outputs), tensor(random("together"), normal, 1, 1, 1, inputs)
	const each = 4 << 20
	calls := max(4, each/len(own[0].body.Elements()))
	times := [3][]float64{}
	at := 0
	for b.Loop() {
		for i := range times {
			start := time.Now()
			for range calls {
				switch at = (at + 1) % len(own); i {
				case 0:
					must(b, own[at].MatMul(dst, a, nil))
				case 1:
					must(b, together[at].MatMul(dst, a, nil))
				case 2:
					readAll(together[at].body.Elements())
				}
			}
			times[i] = append(times[i], float64(time.Since(start))/float64(calls))
		}
	}
	reading := measure.Median(times[2])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*reading/measure.Median(times[0]), "percent-own")
	b.ReportMetric(100*reading/measure.Median(times[1]), "percent-together")
	b.ReportMetric(float64(len(own[0].body.Elements()))/reading, "reading-GB/s")
}

var readSink uint64

// readAll reads all of x.
func readAll(x []byte) {
	w := unsafe.Slice((*uint64)(unsafe.Pointer(&x[0])), len(x)/8)
	var s, t, u, v uint64
	for i := 0; i+8 <= len(w); i += 8 {
		y := (*[8]uint64)(w[i:])
		s, t, u, v = s^y[0]^y[4], t^y[1]^y[5], u^y[2]^y[6], v^y[3]^y[7]
	}
	readSink += s ^ t ^ u ^ v
}

// ordinaryBlocks is fileOfBlocks without subnormal scales, which make products slower.
func ordinaryBlocks(r *rand.Rand, typ BlockType, outputs, inputs int) []byte {
	data := fileOfBlocks(r, typ, outputs, inputs)
	for at := 0; typ == MXFP4 && at < len(data); at += traitsOf(typ).Bytes {
		data[at] = 120
	}
	return data
}

// BenchmarkRows reads embeddings of random tokens from a matrix, in turns with copies of rows of a
// table of float32, which a program would keep in addition.
func BenchmarkRows(b *testing.B) {
	const tokens, width = 16384, 1024
	r := random(b.Name())
	table, turn := tensor(r, normal, 1, 1, tokens, width), 0
	draws := make([]int32, 1<<16)
	for i := range draws {
		draws[i] = int32(r.IntN(tokens))
	}
	next := func(n int) []int32 {
		turn = (turn + n) % (len(draws) - n)
		return draws[turn:][:n]
	}
	bench := func(m *Matrix, err error) {
		must(b, err)
		name := m.Format().String()
		if t, ok := m.BlockType(); ok {
			name = t.String()
		}
		for _, n := range []int{1, 512} {
			dst := zeros(1, 1, n, width)
			b.Run(fmt.Sprintf("%s/rows=%d", name, n), func(b *testing.B) {
				ratioInTurns(b, 4, func() error { return m.Rows(dst, next(n)) }, func() error {
					for i, token := range next(n) {
						copy(dst.Row(0, 0, i), table.Row(0, 0, int(token)))
					}
					return nil
				})
			})
		}
		must(b, m.Close())
	}
	for _, f := range matrixTypes {
		bench(PackMatrix(table, MatrixConfig{Format: f, Transposed: true}))
	}
	for _, typ := range integerBlockTypes {
		bench(PackBlocks(ordinaryBlocks(r, typ, tokens, width), typ, tokens, width, MatrixConfig{}))
	}
}

// BenchmarkPackBlocks is the rate at which bytes of a file are packed, by two workers.
func BenchmarkPackBlocks(b *testing.B) {
	const n = 4096
	pool := NewPool(2)
	defer pool.Close()
	for _, typ := range append(integerBlockTypes, BlockF16) {
		data := make([]byte, n*n/traitsOf(typ).Inputs*traitsOf(typ).Bytes)
		b.Run(typ.String(), func(b *testing.B) {
			for b.Loop() {
				m, err := pool.PackBlocks(data, typ, n, n, MatrixConfig{})
				must(b, err)
				must(b, m.Close())
			}
			perSecond(b, float64(len(data)), "GB/s")
		})
	}
}

// BenchmarkInt8TwoWorkers is one worker over two.
func BenchmarkInt8TwoWorkers(b *testing.B) {
	pool := NewPool(2)
	defer pool.Close()
	r := random(b.Name())
	for _, c := range []struct {
		shape  shape
		causal Causal
	}{{shape{1, 8, 1, 1024, 1024, 64, 64}, Full}, {shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft},
		{shape{1, 8, 1, 2048, 2048, 128, 128}, Full}, {shape{8, 12, 1, 128, 128, 64, 64}, Full}} {
		p := newProblem(r, normal, c.shape)
		dst, _, _ := p.results()
		opt := &Options{Causal: c.causal, Integers: true}
		b.Run(fmt.Sprint(c.shape, c.causal), func(b *testing.B) {
			ratio(b, func() error { return Attend(dst, p.q, p.k, p.v, opt) },
				func() error { return pool.Attend(dst, p.q, p.k, p.v, opt) })
		})
	}
	m, err := PackMatrix(tensor(r, normal, 1, 1, 4096, 4096), MatrixConfig{Format: I8, Integers: true})
	must(b, err)
	dst, a := zeros(1, 1, 128, 4096), tensor(r, normal, 1, 1, 128, 4096)
	b.Run("matrix/rows=128", func(b *testing.B) {
		ratio(b, func() error { return m.MatMul(dst, a, nil) },
			func() error { return pool.MulMatrix(dst, a, m, nil) })
	})
}

// BenchmarkBlocksTwoWorkers is one worker over two, for matrices of blocks.
func BenchmarkBlocksTwoWorkers(b *testing.B) {
	const n = 4096
	pool := NewPool(2)
	defer pool.Close()
	r := random(b.Name())
	for _, typ := range integerBlockTypes {
		for _, integers := range []bool{true, false} {
			m, err := pool.PackBlocks(ordinaryBlocks(r, typ, n, n), typ, n, n,
				MatrixConfig{Integers: integers})
			must(b, err)
			twoWorkers(b, pool, m, fmt.Sprintf("%v/integers=%v", typ, integers), 1, 4, 8, 128)
			must(b, m.Close())
		}
	}
}

// BenchmarkMatrixTwoWorkers is that for matrices of each format.
func BenchmarkMatrixTwoWorkers(b *testing.B) {
	const n = 4096
	pool := NewPool(2)
	defer pool.Close()
	w := tensor(random(b.Name()), normal, 1, 1, n, n)
	for _, c := range []MatrixConfig{{}, {Format: F16}, {Format: BF16}, {Format: I8},
		{Format: I8, Integers: true}} {
		m, err := pool.PackMatrix(w, c)
		must(b, err)
		twoWorkers(b, pool, m, fmt.Sprintf("%v/integers=%v", c.Format, c.Integers), 1, 2, 4, 8)
		must(b, m.Close())
	}
}

// BenchmarkManyRows is what products of many rows reach of the multiply-adds that the cores can do,
// measured in turns: the fastest calls over the fastest stretch of multiply-adds.
func BenchmarkManyRows(b *testing.B) {
	const n = 4096
	pool := NewPool(2)
	defer pool.Close()
	w := tensor(random(b.Name()), normal, 1, 1, n, n)
	for _, format := range []Format{F32, F16, BF16} {
		m, err := PackMatrix(w, MatrixConfig{Format: format})
		must(b, err)
		for _, rows := range []int{32, 128, 512} {
			dst, a := zeros(1, 1, rows, n), tensor(random(b.Name()), normal, 1, 1, rows, n)
			flops := 2 * float64(rows) * n * n
			at := fmt.Sprintf("%v/rows=%d", format, rows)
			b.Run(at+"/workers=1", func(b *testing.B) {
				ofLimit(b, 1, flops, func() error { return m.MatMul(dst, a, nil) })
			})
			b.Run(at+"/workers=2", func(b *testing.B) {
				ofLimit(b, 2, flops, func() error { return pool.MulMatrix(dst, a, m, nil) })
			})
			if format == F32 {
				b.Run(at+"/views", func(b *testing.B) {
					ofLimit(b, 1, flops, func() error { return MatMul(dst, a, w) })
				})
			}
		}
		must(b, m.Close())
	}
}

// ofLimit reports the rate of calls as a per cent of the rate of multiply-adds on some threads: the
// median of turns, in which multiply-adds run as long as a call, with and without loads. Other work
// on a core slows those with loads more.
func ofLimit(b *testing.B, threads int, flops float64, call func() error) {
	var parts, withLoads []float64
	took, least, v := 2*time.Millisecond, math.Inf(1), limits.For(Implementation())
	for b.Loop() {
		limit := limits.FMA(v, threads, took)
		start := time.Now()
		must(b, call())
		took = time.Since(start)
		rate := flops / took.Seconds()
		parts = append(parts, rate/limit)
		withLoads = append(withLoads, rate/limits.FMAWithLoads(v, threads, took))
		least = min(least, took.Seconds())
	}
	b.ReportMetric(100*measure.Median(parts), "%-of-limit")
	b.ReportMetric(100*measure.Median(withLoads), "%-with-loads")
	b.ReportMetric(1e3*least, "least-ms")
}

// twoWorkers is the time of products by a matrix on one worker over that on two, in turns of some
// calls, as a model has them: the second worker expects the next one.
func twoWorkers(b *testing.B, pool *Pool, m *Matrix, name string, rows ...int) {
	_, _, inputs, outputs := m.Dims()
	for _, n := range rows {
		dst, a := zeros(1, 1, n, outputs), tensor(random(name), normal, 1, 1, n, inputs)
		b.Run(fmt.Sprintf("%s/rows=%d", name, n), func(b *testing.B) {
			ratioInTurns(b, 10, func() error { return m.MatMul(dst, a, nil) },
				func() error { return pool.MulMatrix(dst, a, m, nil) })
		})
	}
}

// BenchmarkLongPrompts is the rate of a long prompt divided by the rate of a prompt of 1024 tokens.
func BenchmarkLongPrompts(b *testing.B) {
	r := random(b.Name())
	for _, int8 := range []bool{false, true} {
		for _, d := range []int{64, 128} {
			short := newProblem(r, normal, shape{1, 4, 1, 1024, 1024, d, d})
			to, _, _ := short.results()
			for _, n := range []int{8192, 16384} {
				b.Run(fmt.Sprintf("int8=%v/d=%d/L=%d", int8, d, n), func(b *testing.B) {
					long := newProblem(r, normal, shape{1, 4, 1, n, n, d, d})
					dst, _, _ := long.results()
					opt := &Options{Integers: int8}
					times := float64(n) / 1024 * float64(n) / 1024
					var best [2]float64
					for b.Loop() {
						best[0] = leastTime(b, best[0], func() error {
							return Attend(dst, long.q, long.k, long.v, opt)
						})
						for range 10 {
							best[1] = leastTime(b, best[1], func() error {
								return Attend(to, short.q, short.k, short.v, opt)
							})
						}
					}
					b.ReportMetric(times*best[1]/best[0], "rate-ratio")
					b.ReportMetric(4*4*float64(n)*float64(n)*float64(d)/best[0]/1e9, "GOP/s")
				})
			}
		}
	}
}

// leastTime is the seconds of a call, or the least so far.
func leastTime(b *testing.B, least float64, call func() error) float64 {
	start := time.Now()
	must(b, call())
	if took := time.Since(start).Seconds(); least == 0 || took < least {
		return took
	}
	return least
}

// BenchmarkLatent decodes one token over 8192 of multi-head latent attention, one key/value head of
// 576 and 512 channels, from a cache whose values are part of its keys, and from one with values.
// They alternate; ratio is the median time of the first divided by the second's.
func BenchmarkLatent(b *testing.B) {
	for _, kind := range allFormats {
		for _, heads := range []int{128, 16, 1} {
			name := fmt.Sprintf("heads=%d/%v", heads, kind)
			b.Run(name, func(b *testing.B) { benchmarkLatent(b, kind, heads, false) })
			if kind == I8 {
				b.Run(name+"/int8", func(b *testing.B) { benchmarkLatent(b, kind, heads, true) })
			}
		}
	}
}

func benchmarkLatent(b *testing.B, kind Format, heads int, int8 bool) {
	const tokens, d, dv = 8192, 576, 512
	r := random("latent")
	k := tensor(r, normal, 1, 1, tokens, d)
	q, dst := tensor(r, normal, 1, heads, 1, d), zeros(1, heads, 1, dv)
	var caches [2]*Cache
	for i := range caches {
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: dv, Capacity: tokens,
			Format: kind, ValuesInKeys: i == 0})
		must(b, err)
		defer c.Close()
		v := firstOf(k, dv)
		if i == 0 {
			v = Tensor{}
		}
		must(b, c.Append(k, v))
		caches[i] = c
	}
	opt := Options{Causal: BottomRight, Integers: int8}
	var times [2][]time.Duration
	for b.Loop() {
		for i, c := range caches {
			begin := time.Now()
			must(b, c.Attend(dst, q, &opt))
			times[i] = append(times[i], time.Since(begin))
		}
	}
	var median [2]float64
	for i, x := range times {
		median[i] = float64(measure.Median(x))
	}
	flops := 2 * float64(heads) * tokens * (d + dv)
	b.ReportMetric(median[0], "ns/latent")
	b.ReportMetric(median[1], "ns/values")
	b.ReportMetric(median[0]/median[1], "ratio")
	b.ReportMetric(flops/median[0], "Gflop/s")
}

// shortShapes are calls of about 20 µs to 0.5 ms, by views and over a cache.
var shortShapes = []struct {
	name  string
	cache bool
	shape shape
}{
	{"H4_L48_D32", false, shape{1, 4, 1, 48, 48, 32, 32}},
	{"H12_L40_D32", false, shape{1, 12, 1, 40, 40, 32, 32}},
	{"H12_L64_D32", false, shape{1, 12, 1, 64, 64, 32, 32}},
	{"H5_L100_D64", false, shape{1, 5, 1, 100, 100, 64, 64}},
	{"H12_L128_D32", false, shape{1, 12, 1, 128, 128, 32, 32}},
	{"H12_L128_D64", false, shape{1, 12, 1, 128, 128, 64, 64}},
	{"decode_KVH8_L256_D64", true, shape{1, 8, 4, 1, 256, 64, 64}},
	{"decode_KVH8_L1024_D64", true, shape{1, 8, 4, 1, 1024, 64, 64}},
	{"decode_KVH8_L1024_D128", true, shape{1, 8, 4, 1, 1024, 128, 128}},
}

// between is what a program does from one call to the next.
var between = []struct {
	name string
	load bool // and every core has another goroutine that never stops
	wait func()
}{
	{"nothing", false, func() {}},
	{"work=20us", false, func() { compute(20 * time.Microsecond) }},
	{"work=200us", false, func() { compute(200 * time.Microsecond) }},
	{"work=2ms", false, func() { compute(2 * time.Millisecond) }},
	{"sleep=1ms", false, func() { time.Sleep(time.Millisecond) }},
	{"load", true, func() {}},
	{"load,work=200us", true, func() { compute(200 * time.Microsecond) }},
}

// compute keeps the caller's core busy for a time.
func compute(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

// loadCores keeps every core busy until the returned function is called.
func loadCores() (stop func()) {
	var ended atomic.Bool
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !ended.Load() {
			}
		})
	}
	return func() { ended.Store(true); all.Wait() }
}

// BenchmarkShortCalls compares a Pool of two with Attend, by the time between calls. It reports
// medians of both, and how many times faster the Pool is. They alternate after a few calls, so that
// both meet the same load of the machine.
func BenchmarkShortCalls(b *testing.B) {
	for _, s := range shortShapes {
		for _, gap := range between {
			b.Run(fmt.Sprintf("%s/%s", s.name, gap.name), func(b *testing.B) {
				alone, pooled := shortCalls(b, s.shape, s.cache)
				if gap.load {
					defer loadCores()()
				}
				var times [2][]float64
				for b.Loop() {
					for i, call := range []func(){alone, pooled} {
						for turn := range 12 {
							gap.wait()
							start := time.Now()
							call()
							if took := time.Since(start); turn > 1 {
								times[i] = append(times[i], float64(took)/1e3)
							}
						}
					}
				}
				one, two := measure.Median(times[0]), measure.Median(times[1])
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(one, "µs-Attend")
				b.ReportMetric(two, "µs-Pool")
				b.ReportMetric(one/two, "times")
			})
		}
	}
}

// shortCalls returns a problem's call by itself and by a pool of two.
func shortCalls(b *testing.B, s shape, cached bool) (alone, pooled func()) {
	x := newProblem(random("short calls"), normal, s)
	dst := zeros(s.b, s.kvh*s.group, s.lq, s.dv)
	pool := NewPool(2)
	b.Cleanup(func() { pool.Close() })
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	if !cached {
		return func() {
			check(Attend(dst, x.q, x.k, x.v, nil))
		}, func() { check(pool.Attend(dst, x.q, x.k, x.v, nil)) }
	}
	c := x.benchCache(b, F32)
	check(c.Append(x.k, x.v))
	return func() {
		check(c.Attend(dst, x.q, nil))
	}, func() { check(pool.AttendCache(dst, x.q, c, nil)) }
}

// tuningTrial is a field of tuning.Row with values to try, and the calls that depend on it.
type tuningTrial struct {
	field  string
	values []int // of a bool 0 and 1
	set    func(row *tuning.Row, value int)
	calls  []tuningCall
}

// tuningCall is attention over views, a cache or a store, or a product by a matrix of float32.
type tuningCall struct {
	// kind is "views", "softcap" and "bias" of views, "beside" with heads side by side, "cache",
	// "store" with b sequences whose pages alternate, or "matrix" of lk × d.
	kind string
	shape
	causal Causal
}

func (c tuningCall) name() string {
	name := fmt.Sprintf("%s/B=%d/H=%d/group=%d/Lq=%d/Lk=%d/D=%d", c.kind, c.b, c.kvh,
		c.group, c.lq, c.lk, c.d)
	if c.causal != Full {
		name += "/causal"
	}
	return name
}

// make returns the call.
func (c tuningCall) make(b *testing.B) func() error {
	p := newProblem(random("tuning"), normal, c.shape)
	dst, _, _ := p.results()
	p.opt.Causal = c.causal
	if of, ok := coldKinds[c.kind]; ok {
		return p.coldCall(b, dst, of)
	}
	switch c.kind {
	case "softcap":
		p.opt.Softcap = 30
	case "bias":
		p.opt.Bias = tensor(random("bias"), normal, 1, 1, c.lq, c.lk)
	case "beside":
		p.k, p.v = tokenMajor(p.k), tokenMajor(p.v)
	case "cache":
		cache := p.benchCache(b, F32)
		must(b, cache.Append(p.k, p.v))
		return func() error { return cache.Attend(dst, p.q, &p.opt) }
	case "store":
		return p.storeCall(b, dst)
	case "matrix":
		m, err := PackMatrix(p.k, MatrixConfig{Transposed: true})
		must(b, err)
		b.Cleanup(func() { m.Close() })
		product := zeros(1, 1, c.lq, c.lk)
		return func() error { return m.MatMul(product, p.q, nil) }
	}
	return func() error { return Attend(dst, p.q, p.k, p.v, &p.opt) }
}

// coldKinds are calls over caches of some formats that are in no cache of the CPU.
var coldKinds = map[string]coldKind{"cold-F32": {F32, F32, false}, "cold-F16": {F16, F16, false},
	"cold-BF16": {BF16, BF16, false}, "cold-I8": {I8, I8, false}, "cold-I4": {I4, I4, false},
	"cold-I8+I4": {I8, I4, false}, "cold-I8-integers": {I8, I8, true},
	"cold-I4-integers": {I4, I4, true}, "cold-I8+I4-integers": {I8, I4, true}}

type coldKind struct {
	keys, values Format
	integers     bool
}

// coldCall goes through copies of a cache.
func (p *problem) coldCall(b *testing.B, dst Tensor, of coldKind) func() error {
	copies, turn, opt := copiesOfCache(b, p, of), 0, p.opt
	opt.Integers = of.integers
	return func() error {
		turn++
		return copies[turn%len(copies)].Attend(dst, p.q, &opt)
	}
}

// copiesOfCache returns more copies of a cache than fit into the CPU's caches.
func copiesOfCache(b *testing.B, p *problem, of coldKind) (copies []*Cache) {
	for size := 0; size < coldMatrices; size += copies[0].MemoryUse() {
		c, err := NewCache(CacheConfig{Batch: p.k.B, KVHeads: p.k.H, HeadDim: p.k.D,
			ValueDim: p.v.D, Capacity: p.k.L, Format: of.keys, ValueFormat: of.values})
		must(b, err)
		b.Cleanup(func() { c.Close() })
		if copies = append(copies, c); len(copies) == 1 {
			must(b, c.Append(p.k, p.v))
			continue
		}
		copy(c.packed.Data, copies[0].packed.Data)
		c.ringSpan = copies[0].ringSpan
	}
	return copies
}

// storeCall is a call over one sequence for each batch entry, of one query each.
func (p *problem) storeCall(b *testing.B, dst Tensor) func() error {
	n, heads := p.q.B, p.q.H
	s, err := NewStore(StoreConfig{KVHeads: p.k.H, HeadDim: p.k.D, ValueDim: p.v.D,
		Pages: n * (p.k.L + Block - 1) / Block})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	seqs := make([]*Sequence, n)
	for i := range seqs {
		seqs[i] = s.NewSequence()
	}
	for at := 0; at < p.k.L; at += Block {
		for _, seq := range seqs {
			filledSequence(b, seq, min(Block, p.k.L-at))
		}
	}
	q, to := BHLD(p.q.Data, 1, heads, n, p.q.D), BHLD(dst.Data, 1, heads, n, p.v.D)
	return func() error { return AttendSequences(to, q, seqs, &Options{Causal: BottomRight}) }
}

// BenchmarkTuning is the time of calls with another value of a field of the row of this CPU over
// that with the value that the row has, which tells noise where both are the same. One thread:
//
//	GOMAXPROCS=1 go test -run '^$' -bench 'Tuning/PrefetchOne' .
func BenchmarkTuning(b *testing.B) {
	for _, trial := range tuningTrials {
		b.Run(trial.field, func(b *testing.B) {
			for _, c := range trial.calls {
				b.Run(c.name(), func(b *testing.B) { trial.run(b, c.make(b)) })
			}
		})
	}
}

func (x *tuningTrial) run(b *testing.B, call func() error) {
	own := tuned
	defer func() { tuned = own }()
	for _, value := range x.values {
		other := own
		x.set(&other, value)
		must(b, other.Check())
		b.Run(fmt.Sprint("value=", value), func(b *testing.B) {
			ratio(b, func() error { tuned = other; return call() },
				func() error { tuned = own; return call() })
		})
	}
}

var tuningTrials = []tuningTrial{
	{"PrefetchOne", []int{256, 2048, 4096, 6144, 8192, 10240, 12288},
		func(row *tuning.Row, n int) { row.PrefetchOne = n },
		append(coldCalls("cold-F32"), panelCalls(1, 2)...)},
	{"PrefetchFew", []int{256, 2048, 4096, 6144, 8192, 10240, 12288},
		func(row *tuning.Row, n int) { row.PrefetchFew = n },
		append(coldCalls("cold-F32"), panelCalls(3, 4, 5)...)},
	{"PrefetchRun", []int{0, 4096, 8192}, func(row *tuning.Row, n int) { row.PrefetchRun = n },
		panelCalls(3, 4, 5)},
	{"PrefetchTyped", []int{1024, 2048, 3072, 5120, 6144, 7168, 8192, 10240, 12288},
		func(row *tuning.Row, n int) { row.PrefetchTyped = n }, coldCalls("cold-F16", "cold-BF16")},
	{"PrefetchScaled", []int{2048, 6144, 9728, 16384, 24576},
		func(row *tuning.Row, n int) { row.PrefetchScaled = n },
		coldCalls("cold-I8", "cold-I4", "cold-I8+I4")},
	{"PrefetchInt8", []int{4096, 6144, 8192, 9728, 12288},
		func(row *tuning.Row, n int) { row.PrefetchInt8 = n },
		coldCalls("cold-I8-integers", "cold-I4-integers", "cold-I8+I4-integers")},
	{"WholeBlocks", []int{0, 1}, func(row *tuning.Row, n int) { row.WholeBlocks = n > 0 },
		coldCalls("cold-I8-integers", "cold-I4-integers", "cold-I8+I4-integers")},
	{"MinTypedRows16", []int{2, math.MaxInt},
		func(row *tuning.Row, n int) { row.MinTypedRows16 = n }, coldCalls("cold-I8")},
	{"MinHalfRows16", []int{2, 5, math.MaxInt},
		func(row *tuning.Row, n int) { row.MinHalfRows16 = n }, coldCalls("cold-F16", "cold-BF16")},
	{"MinInt8Rows16", []int{1, 2, math.MaxInt},
		func(row *tuning.Row, n int) { row.MinInt8Rows16 = n }, coldCalls("cold-I8-integers")},
	{"OnePanel", []int{0, 1}, func(row *tuning.Row, n int) { row.OnePanel = n > 0 },
		panelCalls(2, 3)},
	{"FourPanels", []int{0, 1}, func(row *tuning.Row, n int) { row.FourPanels = n > 0 },
		panelCalls(1)},
	{"FewRows", []int{64, 96, 128, 256}, func(row *tuning.Row, n int) { row.FewRows = n },
		slices.Concat(callsOf("beside", 4096, 16, 16, 32, 56, 80, 112, 192),
			callsOf("beside", 512, 32, 80, 112), callsOf("beside", 2048, 4, 80, 112))},
	{"MinRows16", []int{2, math.MaxInt}, func(row *tuning.Row, n int) { row.MinRows16 = n },
		slices.Concat(callsOf("views", 1024, 4, 2, 4), callsOf("views", 4096, 16, 2, 4),
			panelCalls(2, 4, 6, 8, 12, 16))},
	{"MinPacked16", []int{2, 13, math.MaxInt},
		func(row *tuning.Row, n int) { row.MinPacked16 = n }, packedCalls},
	{"MinPagedPanels", []int{0, 6}, func(row *tuning.Row, n int) { row.MinPagedPanels = n },
		panelCalls(5, 6, 7, 8, 12, 16, 24)},
	{"MaximaInScore", []int{0, 1}, func(row *tuning.Row, n int) { row.MaximaInScore = n > 0 },
		slices.Concat(prefillCalls, optionCalls)},
	{"QuarterSteps", []int{0, 1}, func(row *tuning.Row, n int) { row.QuarterSteps = n > 0 },
		prefillCalls},
	{"TileRows", []int{48, 96}, func(row *tuning.Row, n int) { row.TileRows = n }, prefillCalls},
}

// prefillCalls are calls of many rows.
var prefillCalls = []tuningCall{
	{"views", shape{1, 8, 1, 1024, 1024, 64, 64}, Full},
	{"views", shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft},
	{"views", shape{1, 4, 1, 1024, 1024, 128, 128}, Full},
	{"views", shape{8, 12, 1, 128, 128, 64, 64}, Full},
	{"cache", shape{1, 8, 1, 512, 1024, 64, 64}, BottomRight},
}

// optionCalls are calls of many rows whose scores are more than products, so that whole blocks do
// not go from kernel to kernel.
var optionCalls = []tuningCall{
	{"softcap", shape{1, 8, 1, 512, 512, 64, 64}, Full},
	{"softcap", shape{8, 12, 1, 128, 128, 64, 64}, Full},
	{"softcap", shape{1, 4, 1, 1024, 1024, 128, 128}, Full},
	{"bias", shape{1, 8, 1, 512, 512, 64, 64}, Full},
	{"bias", shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft},
	{"bias", shape{1, 4, 1, 1024, 1024, 128, 128}, Full},
}

// packedCalls are calls over views for which keys are packed, since there are rows enough.
var packedCalls = slices.Concat(callsOf("views", 1024, 4, 8, 12, 16, 32, 52),
	callsOf("views", 4096, 16, 8, 12), callsOf("beside", 4096, 16, 8, 12), prefillCalls)

// callsOf is calls of some rows for each of some heads, of D = 64 and 128.
func callsOf(kind string, lk, heads int, rows ...int) (calls []tuningCall) {
	for _, n := range rows {
		for _, d := range []int{64, 128} {
			calls = append(calls, tuningCall{kind, shape{1, heads, 1, n, lk, d, d}, Full})
		}
	}
	return calls
}

// coldCalls is calls of one token over caches of some kinds, of one to eight query heads for each
// key/value head.
func coldCalls(kinds ...string) (calls []tuningCall) {
	for _, kind := range kinds {
		for _, group := range []int{1, 2, 4, 8} {
			calls = append(calls, tuningCall{kind, shape{1, 32 / group, group, 1, 4096, 128, 128}, Full})
		}
	}
	return calls
}

// panelCalls is calls of some rows over packed panels, out of memory and out of caches.
func panelCalls(rows ...int) (calls []tuningCall) {
	for _, n := range rows {
		calls = append(calls,
			tuningCall{"cache", shape{1, 64, n, 1, 4096, 128, 128}, Full},
			tuningCall{"cache", shape{1, 16, n, 1, 4096, 128, 128}, Full},
			tuningCall{"cache", shape{1, 32, n, 1, 4096, 64, 64}, Full},
			tuningCall{"store", shape{16, 8, n, 1, 512, 128, 128}, Full},
			tuningCall{"matrix", shape{1, 1, 1, n, 4096, 4096, 1}, Full},
			tuningCall{"cache", shape{1, 8, n, 1, 1024, 128, 128}, Full},
			tuningCall{"cache", shape{1, 1, n, 1, 512, 128, 128}, Full},
			tuningCall{"store", shape{4, 8, n, 1, 128, 128, 128}, Full},
			tuningCall{"matrix", shape{1, 1, 1, n, 512, 512, 1}, Full})
	}
	return calls
}
