package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
)

const demoAbout = `attn demo

Computes published walk-throughs of attention on small matrices, says who published them, prints
inputs, options and results, and compares them with the published numbers.

`

// demoTolerance is the allowed difference from the published number.
const demoTolerance = 1e-6

func demoCommand(args []string, stdout, stderr io.Writer) error {
	if err := flags.ParseAll(flags.New(demoAbout), args, stdout); err != nil {
		return err
	}
	d := &demo{w: stdout}
	d.say("attn demo: published walk-throughs of attention, computed here and compared.")
	d.say("q, k, v are queries, keys and values, one token a row. Attention is softmax(scale·q·kᵀ)·v.")
	d.dotProduct()
	d.floatMask()
	d.multiHead()
	d.embeddings()
	return d.finish()
}

// demo prints examples and counts the correct ones.
type demo struct {
	w             io.Writer
	right, failed int
	err           error // the first error of the package
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.w, format+"\n", args...) }

// chapter begins a walk-through and says who published it.
func (d *demo) chapter(name, source string) {
	d.say("\n%s\n%s\nSource: %s.\n", name, strings.Repeat("─", len([]rune(name))), source)
}

// example begins one computation: its title and its options.
func (d *demo) example(name, options string) {
	d.say("\n• %s", name)
	if options != "" {
		d.say("  options   %s", options)
	}
}

// attend is attn.Attend with contiguous results.
func (d *demo) attend(q, k, v attn.Tensor, opt *attn.Options) []float32 {
	dst := make([]float32, q.B*q.H*q.L*v.D)
	if err := attn.Attend(attn.BHLD(dst, q.B, q.H, q.L, v.D), q, k, v, opt); err != nil &&
		d.err == nil {
		d.err = err
	}
	return dst
}

// matrix and numbers print rows of the given length under a name.
func (d *demo) matrix(name string, x []float32, cols int) { d.numbers(name, wide(x), cols) }

func (d *demo) numbers(name string, x []float64, cols int) {
	text := make([]string, len(x))
	width := 0
	for i, e := range x {
		text[i] = fmt.Sprintf("%.8g", e)
		width = max(width, len(text[i]))
	}
	for i := 0; i < len(text); i += cols {
		d.say("  %-9s [%s]", name, inColumns(text[i:i+cols], width))
		name = ""
	}
}

// wide converts to float64 exactly.
func wide(x []float32) []float64 {
	w := make([]float64, len(x))
	for i, e := range x {
		w[i] = float64(e)
	}
	return w
}

// inColumns pads numbers to a common width.
func inColumns(text []string, width int) string {
	padded := make([]string, len(text))
	for i, s := range text {
		padded[i] = fmt.Sprintf("%-*s", width, s)
	}
	return strings.Join(padded, "  ")
}

// compare prints a result next to the expected one.
func (d *demo) compare(result []float32, expected []float64, cols int) {
	d.matrix("result", result, cols)
	d.numbers("expected", expected, cols)
	worst := 0.0
	for i, e := range expected {
		if diff := math.Abs(float64(result[i]) - e); diff > worst || diff != diff {
			worst = diff
		}
	}
	d.verdict(worst <= demoTolerance, fmt.Sprintf("largest difference %.1e", worst))
}

// same compares bits that the package promises to be equal.
func (d *demo) same(what string, a, b []float32) {
	equal := len(a) == len(b)
	for i := 0; equal && i < len(a); i++ {
		equal = math.Float32bits(a[i]) == math.Float32bits(b[i])
	}
	d.verdict(equal, what)
}

func (d *demo) verdict(ok bool, text string) {
	if ok {
		d.right++
		d.say("  ok        %s", text)
		return
	}
	d.failed++
	d.say("  WRONG     %s", text)
}

func (d *demo) finish() error {
	if d.err != nil {
		return d.err
	}
	if d.failed > 0 {
		return fmt.Errorf("%d of %d comparisons failed", d.failed, d.failed+d.right)
	}
	if d.right == 0 {
		return errors.New("nothing was compared")
	}
	d.say("\nAll %d comparisons are as expected.", d.right)
	return nil
}
