package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/models/lm"
)

// benchFlags are the flags of attn-lm bench.
type benchFlags struct {
	modelFlags
	prompt, decoded, clients int
	lasting                  time.Duration
}

// bench measures prompts, one answer, and answers to many clients at the same time.
func bench(args []string, _ io.Reader, out, errs io.Writer) error {
	o := &benchFlags{}
	f := flags.New("attn-lm bench [flags]\n\nMeasures tokens a second: of a prompt, of one answer " +
		"after it, and of answers to several clients.")
	o.register(f)
	f.IntVar(&o.prompt, "prompt", 512, "number of tokens of a prompt")
	f.IntVar(&o.decoded, "n", 64, "number of tokens of an answer")
	f.IntVar(&o.clients, "clients", 16, "number of answers at the same time")
	f.DurationVar(&o.lasting, "for", 0, "`duration` for which clients send request after request, "+
		"compared with as many clients as -sequences (default one answer each)")
	err := flags.ParseAll(f, args, errs)
	if err == nil {
		err = o.check(f)
	}
	for _, n := range []struct {
		name     string
		is, most int
	}{{"prompt", o.prompt, 1 << 20}, {"n", o.decoded, 1 << 20}, {"clients", o.clients, 4096}} {
		if err == nil && (n.is < 1 || n.is > n.most) {
			err = flags.Errorf("-%s is %d, want 1 to %d", n.name, n.is, n.most)
		}
	}
	if err == nil && (o.lasting < 0 || o.lasting > time.Hour) {
		err = flags.Errorf("-for is %v, want 0 to 1h", o.lasting)
	}
	if err != nil {
		return err
	}
	if o.Context == 0 {
		o.Context = o.prompt + o.decoded + 8
	}
	m, closing, err := o.open()
	if err != nil {
		return err
	}
	defer closing()
	if err := o.describe(out, errs, m); err != nil {
		return err
	}
	ctx, cancel := interruptible()
	defer cancel()
	return o.measure(ctx, out, m)
}

func (o *benchFlags) measure(ctx context.Context, out io.Writer, m *lm.Model) error {
	var read, made []float64
	for i := range 3 {
		r, d, err := o.one(ctx, m, i)
		if err != nil {
			return err
		}
		read, made = append(read, float64(o.prompt)/r), append(made, d)
	}
	slices.Sort(read)
	slices.Sort(made)
	fmt.Fprintf(out, "prompt of %d tokens: %.1f tokens/s\n", o.prompt, read[1])
	fmt.Fprintf(out, "answer of %d tokens: %.1f tokens/s\n", o.decoded, made[1])
	if bytes := m.ReadBytes(); bytes > limits.DRAM() {
		loops := limits.For(attn.Implementation())
		memory, speed := limits.NewMemory(loops, cmp.Or(o.Workers, runtime.GOMAXPROCS(0)),
			limits.DRAM()), 0.0
		for range 5 {
			speed = max(speed, memory.Read(), memory.ReadStreams())
		}
		fmt.Fprintf(out, "  %.1f tokens/s would read the %.2f GB of all matrices at the memory's %.1f "+
			"GB/s\n", speed/float64(bytes), float64(bytes)/1e9, speed/1e9)
	}
	if o.lasting > 0 {
		return o.last(ctx, out, m)
	}
	start, errs := time.Now(), make([]error, o.clients)
	var wait sync.WaitGroup
	for i := range o.clients {
		wait.Go(func() { _, _, errs[i] = o.one(ctx, m, 3+i) })
	}
	wait.Wait()
	took := time.Since(start).Seconds()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d clients, a prompt and an answer each: %.1f tokens/s of answers, %.1f of "+
		"all\n", o.clients, float64(o.clients*o.decoded)/took,
		float64(o.clients*(o.decoded+o.prompt))/took)
	return nil
}

// one returns how long a prompt takes in seconds, and the tokens a second of its answer.
func (o *benchFlags) one(ctx context.Context, m *lm.Model, number int) (read, made float64,
	err error) {
	prompt := make([]int32, o.prompt)
	for i := range prompt {
		prompt[i] = int32((i*37 + number*101) % m.Sizes().Vocab)
	}
	prompt[0] = int32(number % m.Sizes().Vocab) // no two prompts begin alike
	ends := map[int32]bool{}
	for _, token := range m.Tokenizer().Ends() {
		ends[token] = true
	}
	start, first, n := time.Now(), time.Time{}, 0
	g := lm.Generation{MaxTokens: o.decoded, Logits: func(_ []int32, logits []float32) error {
		for token := range ends { // an answer has all of its tokens
			logits[token] = float32(math.Inf(-1))
		}
		return nil
	}}
	for _, err := range m.Generate(ctx, prompt, g) {
		if err != nil {
			return 0, 0, err
		}
		if n++; n == 1 {
			first = time.Now()
		}
	}
	return first.Sub(start).Seconds(), float64(n-1) / max(time.Since(first).Seconds(), 1e-9), nil
}
