// Command latent is a layer of multi-head latent attention (MLA), as DeepSeek's and Kimi's models
// have it, on package attn: its cache keeps one vector a token for all heads, from which keys and
// values of every head follow. It decodes a random sequence token by token and compares the outputs
// with those of the textbook's form in float64.
package main

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/seed-1415985d/attn"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "latent:", err)
		os.Exit(1)
	}
}

const tokens = 200

// run compares all formats of the cache.
func run(out io.Writer) error {
	l := newLayer(sizes{dim: 96, heads: 8, latent: 64, rotary: 16, plain: 32, value: 24}, 1)
	x := normal(2, tokens*l.dim)
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
