package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/cluster/lmcache"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/lm"
)

const answerAbout = `attn-cluster answer [flags] TEXT...

Continues texts with a language model that runs here, while workers keep its keys and values. The
answers have the bits of attn-lm run without a cluster.

`

// answerFlags are the flags of attn-cluster answer.
type answerFlags struct {
	connection
	model    string
	patience time.Duration
	most     int
	options  lm.Options
	sampling lm.Sampling
	texts    []string
}

// cacheFormats are the names of -cache.
var cacheFormats = []lm.Format{lm.F32, lm.F16, lm.BF16, lm.I8, lm.I4}

func parseAnswer(args []string, stdout io.Writer) (*answerFlags, error) {
	a := &answerFlags{}
	fs := flags.New(answerAbout)
	a.connection.register(fs)
	fs.StringVar(&a.model, "model", "", "GGUF `file` or folder of the model (default a random one, "+
		"whose answers mean nothing)")
	fs.IntVar(&a.most, "n", 64, "most `tokens` of an answer")
	fs.IntVar(&a.options.Context, "context", 0, "most `tokens` of a text and its answer (default "+
		"what the model was trained for, at most 8192)")
	fs.IntVar(&a.options.Workers, "workers", 0, "`number` of threads (default one for each processor)")
	fs.Uint64Var(&a.sampling.Seed, "seed", 1, "random seed of sampling")
	temperature := fs.Float64("temperature", 0, "`number` by which logits are divided; 0 chooses the "+
		"most likely token")
	fs.Func("cache", "`format` of keys and values: f32, f16, bf16, i8 or i4, or two formats, as i8,i4",
		a.setCache)
	fs.DurationVar(&a.patience, "wait", 5*time.Second, "`time` for workers to announce themselves")
	err := flags.Parse(fs, args, stdout)
	if a.texts = fs.Args(); err == nil {
		_, err = flags.Texts("text", args, a.texts)
	}
	a.sampling.Temperature = float32(*temperature)
	switch {
	case err != nil:
	case len(a.texts) == 0:
		err = flags.Errorf("there is no text, want one or more after the flags")
	case a.most < 1:
		err = flags.Errorf("-n is %d, want 1 or more", a.most)
	}
	return a, err
}

// setCache sets the formats of keys and values.
func (a *answerFlags) setCache(text string) error {
	keys, values, both := strings.Cut(text, ",")
	for name, to := range map[string]*lm.Format{keys: &a.options.Keys, values: &a.options.Values} {
		if name == values && !both {
			continue
		}
		i := slices.IndexFunc(cacheFormats, func(f lm.Format) bool { return f.String() == name })
		if i < 0 {
			return fmt.Errorf("want f32, f16, bf16, i8 or i4, or two of these, as i8,i4")
		}
		*to = cacheFormats[i]
	}
	if both && keys == values {
		a.options.Keys = a.options.Values
	}
	return nil
}

func answerCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	a, err := parseAnswer(args, stdout)
	if err != nil {
		return err
	}
	link, err := a.dial("attn-cluster answer")
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }() // never fails
	client, err := cluster.NewClient(link, cluster.ClientConfig{
		Segments: lmcache.Segments(a.options.Context)})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := a.wait(ctx, client); err != nil {
		return err
	}
	a.options.Cache = lmcache.New(ctx, client)
	m, err := a.open()
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Fprintf(stdout, "keys and values on %d workers, parts of %d tokens\n%v\n\n",
		len(client.Workers()), lmcache.Segments(a.options.Context)*attn.Segment, m)
	return a.answer(ctx, m, stdout)
}

// wait waits for the first worker, and briefly for another one, for second copies.
func (a *answerFlags) wait(ctx context.Context, c *cluster.Client) error {
	first, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	if err := c.Wait(first, 1); err != nil {
		return fmt.Errorf("%w; attn-cluster serve starts a worker", err)
	}
	second, cancel := context.WithTimeout(ctx, a.patience/5)
	defer cancel()
	_ = c.Wait(second, 2) // one worker is enough
	return nil
}

func (a *answerFlags) open() (*lm.Model, error) {
	if a.model == "" {
		return lm.Random(lm.Sizes{Seed: 1}, a.options)
	}
	return lm.Open(a.model, a.options)
}

// answer prints the answers one after the other, while all are generated at the same time.
func (a *answerFlags) answer(ctx context.Context, m *lm.Model, stdout io.Writer) error {
	made, failed := make([]chan string, len(a.texts)), make([]error, len(a.texts))
	for i, text := range a.texts {
		made[i] = make(chan string, a.most+1)
		go func() {
			defer close(made[i])
			g := lm.Generation{MaxTokens: a.most, Sampling: a.sampling}
			g.Sampling.Seed += uint64(i)
			for token, err := range m.Complete(ctx, text, g) {
				if err != nil {
					failed[i] = fmt.Errorf("text %d: %w", i+1, err)
					return
				}
				made[i] <- token.Text
			}
		}()
	}
	for i, text := range a.texts {
		fmt.Fprintf(stdout, "[%d] %s", i+1, text)
		for more := range made[i] {
			fmt.Fprint(stdout, more)
		}
		fmt.Fprint(stdout, "\n\n")
	}
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
