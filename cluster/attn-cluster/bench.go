package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/measure"
)

const benchAbout = `attn-cluster bench

Measures decoding steps, each of a new token, on clusters of processes on this machine, in turns
with their parts: attention over the same tokens in this process, with as many threads as there are
workers, up to the number of cores; bare NATS requests of as many bytes, one to each of as many
processes, all at the same time; and the same over plain TCP connections, the least cost of any
stream. 8 query heads over 2 of 64, F32. The table is Markdown. Times are minimum, p50 and p99; the
other columns are computed from p50:

  GB/s       bytes of keys and values / step
  overhead   (step - attention) / NATS
  TCP saves  (NATS - TCP) / step

With -batch it measures steps of that many sequences together, in turns with steps of one.

`

func benchCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	b := &bench{w: stdout, tokens: []int{4096, 65536}, workers: []int{1, 2, 4}}
	fs := flags.New(benchAbout)
	fs.Func("tokens", "`numbers` of tokens (default 4096,65536)", numbersFlag(&b.tokens, math.MaxInt))
	fs.Func("workers", "`numbers` of workers (default 1,2,4)", numbersFlag(&b.workers, mostProcesses))
	fs.IntVar(&b.steps, "n", 400, "`number` of steps of each case")
	fs.IntVar(&b.batch, "batch", 1, "`sequences` that take steps together, compared with one")
	onPaper := fs.Bool("paper", false, "compute what a token of a model of 32 layers costs on other "+
		"machines, instead of measuring")
	appends := fs.Bool("append", false, "measure appending instead of steps, and print the fastest "+
		"of -n times")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	if *onPaper {
		paperModel.print(stdout)
		return nil
	}
	if b.steps < 1 {
		return flags.Errorf("-n is %d, want at least 1", b.steps)
	}
	if b.batch < 1 {
		return flags.Errorf("-batch is %d, want at least 1", b.batch)
	}
	if *appends {
		return b.measureAppends(ctx)
	}
	measureRow := b.measure
	if b.batch > 1 {
		measureRow = b.measureBatch
		batchHeader(stdout, b.batch)
	} else {
		fmt.Fprintln(stdout, "| tokens | workers | sent | received | step | GB/s | attention | NATS | "+
			"TCP | overhead | TCP saves |\n|"+strings.Repeat("---:|", 11))
	}
	for _, tokens := range b.tokens {
		for _, workers := range b.workers {
			if err := measureRow(ctx, tokens, workers); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostProcesses is the largest number of workers on this machine.
const mostProcesses = 256

// numbersFlag reads numbers from 1 to most, with commas between them.
func numbersFlag(to *[]int, most int) func(string) error {
	return func(s string) error {
		*to = nil
		for _, field := range strings.Split(s, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 {
				return fmt.Errorf("want numbers above 0, with commas between them")
			}
			if n > most {
				return fmt.Errorf("want at most %d", most)
			}
			*to = append(*to, n)
		}
		return nil
	}
}

// bench says what to measure.
type bench struct {
	w       io.Writer
	tokens  []int
	workers []int
	steps   int
	batch   int
}

// times are the measurements of one case.
type times struct {
	step, attention, nats, tcp []time.Duration
	sent, received             uint64 // bytes of a step
}

// measure prints a row.
func (b *bench) measure(ctx context.Context, tokens, workers int) error {
	s := shape{layers: 1, heads: 8, kvHeads: 2, dim: 64, format: attn.F32}
	l, err := startLocal(ctx, localConfig{workers: workers, threads: 1,
		memory: 2*s.bytes(tokens) + 64<<20, client: cluster.ClientConfig{Segments: segments(tokens),
			Copies: min(2, workers)}})
	if err != nil {
		return err
	}
	defer l.close()
	t, err := newTwin(l, s, tokens, 1)
	if err != nil {
		return err
	}
	defer t.close()
	_ = t.pool.Close() // nobody uses it
	t.pool = attn.NewPool(min(workers, runtime.GOMAXPROCS(0)))
	if err := b.fill(ctx, t, tokens); err != nil {
		return err
	}
	plain, err := startBare(l, workers)
	if err != nil {
		return err
	}
	defer plain.close()
	x, err := b.takeTurns(ctx, t, plain)
	return b.row(ctx, err, len(x.step), func() { x.print(b.w, tokens, workers, s.bytes(tokens)) })
}

// row prints a row of steps: all, or those before a signal.
func (b *bench) row(ctx context.Context, err error, steps int, print func()) error {
	_, is := early(ctx, err)
	if err == nil || is && steps > 0 {
		print()
	}
	if err != nil && is && steps > 0 {
		return partly{err, steps, b.steps}
	}
	return err
}

// warm is the number of first turns that do not count.
const warm = 20

// rounds runs ways in turns until there are enough rounds; the first ones do not count.
func (b *bench) rounds(ctx context.Context, ways ...func() (time.Duration, error)) (
	[][]time.Duration, error) {
	n := 0
	all, err := measure.Rounds(func() bool { n++; return ctx.Err() == nil && n <= warm+b.steps },
		ways...)
	for i, took := range all {
		all[i] = took[min(warm, len(took)):]
	}
	return all, cmp.Or(err, ctx.Err())
}

// takeTurns measures everything in turns, under the same conditions of the machine.
func (b *bench) takeTurns(ctx context.Context, t *twin, e *bare) (x times, err error) {
	var s step // the last complete step
	n := len(e.tcp)
	bytes := func() (int, int) { return int(s.sent) / n, int(s.received) / n }
	all, err := b.rounds(ctx, func() (time.Duration, error) {
		next, err := t.step(ctx, 0, 1)
		if err == nil {
			s = next
		}
		return s.far, err
	}, func() (time.Duration, error) {
		return s.near, nil
	}, func() (time.Duration, error) {
		return e.overNATS(bytes())
	}, func() (time.Duration, error) {
		return e.overTCP(bytes())
	})
	return times{all[0], all[1], all[2], all[3], s.sent, s.received}, err
}

func (x *times) print(w io.Writer, tokens, workers int, bytes int64) {
	three := func(all []time.Duration) string {
		return fmt.Sprintf("%v, %v, %v", round(measure.Quantile(all, 0)), round(measure.Median(all)),
			round(measure.Quantile(all, 0.99)))
	}
	stepTime, attention := measure.Median(x.step), measure.Median(x.attention)
	nats, tcp := measure.Median(x.nats), measure.Median(x.tcp)
	fmt.Fprintf(w, "| %d | %d | %d | %d | %s | %.1f | %s | %s | %s | %.2f | %.0f %% |\n", tokens,
		workers, x.sent, x.received, three(x.step), float64(bytes)/float64(stepTime.Nanoseconds()),
		three(x.attention), three(x.nats), three(x.tcp), float64(stepTime-attention)/float64(nats),
		100*float64(nats-tcp)/float64(stepTime))
}
