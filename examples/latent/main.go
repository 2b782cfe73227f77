// Command latent is a layer of multi-head latent attention (MLA), as DeepSeek's and Kimi's models
// have it, on package attn: its cache keeps one vector a token for all heads, from which keys and
// values of every head follow. It decodes a random sequence token by token and compares the outputs
// with the textbook's form in float64.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command is the exit code of a run, whose error it prints.
func command(args []string, out, errs io.Writer) int {
	err := run(args, out)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(errs, "latent:", err)
	}
	return flags.Status(err)
}

// options are the sizes of the layer, and how long its sequence is.
type options struct {
	sizes
	tokens int
	seed   uint64
}

// mostNumbers bounds weights, and pairs of tokens, for which the definition already needs minutes.
// most bounds each size.
const mostNumbers, most = 1 << 28, 1 << 16

func parse(args []string, help io.Writer) (o options, err error) {
	f := flag.NewFlagSet("latent [flags]", flag.ContinueOnError)
	numbers := []struct {
		name         string
		to           *int
		value, least int
		about        string
	}{
		{"tokens", &o.tokens, 200, 1, "length of the sequence"},
		{"dim", &o.dim, 96, 1, "hidden_size"},
		{"heads", &o.heads, 8, 1, "num_attention_heads"},
		{"latent", &o.latent, 64, 1, "kv_lora_rank"},
		{"rotary", &o.rotary, 16, 0, "qk_rope_head_dim, an even number"},
		{"plain", &o.plain, 32, 1, "qk_nope_head_dim"},
		{"value", &o.value, 24, 1, "v_head_dim"},
	}
	for _, n := range numbers {
		f.IntVar(n.to, n.name, n.value, n.about)
	}
	f.Uint64Var(&o.seed, "seed", 1, "random seed of the weights and the sequence")
	if err := flags.ParseAll(f, args, help); err != nil {
		return o, err
	}
	for _, n := range numbers {
		if *n.to < n.least || *n.to > most {
			return o, flags.Errorf("-%s is %d, want %d to %d", n.name, *n.to, n.least, most)
		}
	}
	if o.rotary%2 != 0 {
		return o, flags.Errorf("-rotary is %d, want an even number: channels turn in pairs", o.rotary)
	}
	if n := o.weights() + float64(o.tokens)*float64(o.tokens); n > mostNumbers {
		return o, flags.Errorf("these sizes need %.2g numbers, want at most %d", n, mostNumbers)
	}
	return o, nil
}

// run compares all formats of the cache.
func run(args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	l, tokens := newLayer(o.sizes, o.seed), o.tokens
	x := normal(o.seed+1, tokens*l.dim)
	want := l.expanded(x)
	fmt.Fprintf(out, "%d tokens, %d heads, keys of %d + %d channels from a vector of %d + %d:\n",
		tokens, l.heads, l.plain, l.rotary, l.latent, l.rotary)
	for _, c := range []struct {
		name     string
		format   attn.Format
		integers bool
	}{{"F32", attn.F32, false}, {"BF16", attn.BF16, false}, {"I8", attn.I8, false},
		{"I8, products in integers", attn.I8, true}} {
		d, err := l.decoder(c.format, tokens)
		if err != nil {
			return err
		}
		d.integers = c.integers
		got, err := d.decode(x)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-26s %6d bytes in the cache, outputs differ by %.2g %% (rms)\n", c.name,
			d.cache.MemoryUse(), 100*difference(got, want))
		if err := d.cache.Close(); err != nil {
			return err
		}
	}
	return nil
}

// decode feeds tokens one by one.
func (d *decoder) decode(x []float32) (out []float32, err error) {
	for ; len(x) > 0; x = x[d.dim:] {
		y, err := d.forward(x[:d.dim])
		if err != nil {
			return nil, err
		}
		out = append(out, y...)
	}
	return out, nil
}

// difference is the rms of what differs over the rms of what is wanted.
func difference(got []float32, want []float64) float64 {
	var sum, all float64
	for i, e := range want {
		sum += (float64(got[i]) - e) * (float64(got[i]) - e)
		all += e * e
	}
	return math.Sqrt(sum / all)
}
