package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
	"github.com/seed-1415985d/attn/cmd/attn/internal/regular"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/progress"
)

// heatmap collects the attention weights of some heads of one batch entry. Long sequences are
// reduced to the resolution of a picture: a cell is the largest of its weights, so that no sharp
// peak is lost.
type heatmap struct {
	batch  int
	heads  []int
	cells  []chart.Cells
	labels []string // of the keys, or nil
	at     int      // absolute position of query 0, or nowhere
}

// nowhere is the position if the tokens of queries are not known; no query has a label there.
const nowhere = -1 << 30

// maxCells is the number of cells of a picture along each axis.
const maxCells = 512

func (f *runFlags) newHeatmap(j *job) (*heatmap, error) {
	h := &heatmap{batch: f.pngBatch, at: j.at}
	if j.opt.Causal == attn.Full && !f.given["offset"] && j.q.L != j.k.L {
		h.at = nowhere
	}
	if h.batch < 0 || h.batch >= j.q.B {
		return nil, fmt.Errorf("-png-batch is %d, want 0 to %d", h.batch, j.q.B-1)
	}
	if j.q.L == 0 || j.k.L == 0 {
		return nil, fmt.Errorf("-png: there are no weights of %d queries and %d keys", j.q.L, j.k.L)
	}
	var err error
	if h.heads, err = parseHeads(f.pngHeads, j.q.H); err != nil {
		return nil, err
	}
	if f.labels != "" {
		if err := h.readLabels(f.labels, j.k.L); err != nil {
			return nil, err
		}
	}
	return h, h.allocate(j.q.L, j.k.L)
}

// parseHeads reads a list of heads, each once.
func parseHeads(list string, have int) (heads []int, err error) {
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		switch {
		case err != nil:
			return nil, flags.Errorf("-png-heads is %q, want numbers such as 0,3", list)
		case n < 0 || n >= have:
			return nil, fmt.Errorf("-png-heads names head %d, want 0 to %d", n, have-1)
		case slices.Contains(heads, n):
			return nil, flags.Errorf("-png-heads is %q, which names head %d twice", list, n)
		}
		heads = append(heads, n)
	}
	return heads, nil
}

// maxPixels bounds a picture: 256 MiB while it is drawn.
const maxPixels = 1 << 26

// allocate makes room for the weights, if a picture of them can be drawn.
func (h *heatmap) allocate(queries, keys int) error {
	if n := chart.Pixels(len(h.heads), queries, keys, h.labels, h.at); n > maxPixels {
		return fmt.Errorf("-png-heads names %d heads, which makes a picture of %.0f pixels, want at "+
			"most %d: name fewer heads", len(h.heads), n, maxPixels)
	}
	for range h.heads {
		h.cells = append(h.cells, chart.NewCells(queries, keys, maxCells))
	}
	return nil
}

// readLabels reads one token per line. The line break at the end is optional.
func (h *heatmap) readLabels(path string, keys int) error {
	f, _, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(h.labels) <= keys {
		h.labels = append(h.labels, strings.TrimRight(lines.Text(), "\r"))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(h.labels) > keys {
		return fmt.Errorf("%s has more than %d lines, want one for each of %d keys", path, keys, keys)
	}
	if len(h.labels) < keys {
		return fmt.Errorf("%s has %d lines, want one for each of %d keys", path, len(h.labels), keys)
	}
	return nil
}

// collect reads the weights from the job's output if it has them, and otherwise computes some rows
// at a time.
func (h *heatmap) collect(j *job, p *progress.Bar) error {
	rows := min(j.q.L, max(1, (1<<20)/j.k.L))
	weights, visible := make([]float32, rows*j.k.L), make([]float32, rows*j.k.L)
	dst := make([]float32, rows*j.v.D)
	for n, head := range h.heads {
		for i := 0; i < j.q.L; i += rows {
			s := slice{h.batch, head, head + 1, i, min(i+rows, j.q.L)}
			w := partIfGiven(j.weights, s)
			if w.Data == nil {
				w = attn.BHLD(weights, 1, 1, s.i1-s.i0, j.k.L)
				opt := j.options(s)
				opt.Weights = w
				if err := j.call(s, attn.BHLD(dst, 1, 1, s.i1-s.i0, j.v.D), &opt); err != nil {
					return err
				}
			}
			if err := j.visible(s, visible); err != nil {
				return err
			}
			for r := range w.L {
				h.cells[n].Add(i+r, w.Row(0, 0, r), visible[r*j.k.L:][:j.k.L])
			}
			p.Add(s.i1 - s.i0)
		}
	}
	return nil
}

// visible sets pairs to a number above 0 for each pair of a slice whose query sees the key, and to
// 0 for others. They are the weights of a call with equal scores, so that none is rounded to 0.
func (j *job) visible(s slice, pairs []float32) error {
	of := j.options(s)
	opt := attn.Options{Causal: of.Causal, Offset: of.Offset, Window: of.Window, Mask: of.Mask}
	rows := s.i1 - s.i0
	opt.Weights = attn.BHLD(pairs, 1, 1, rows, j.k.L)
	if of.Bias.Data != nil {
		opt.Bias = maskOf(of.Bias)
	}
	token := func(l int) attn.Tensor { return attn.BHLD(make([]float32, l), 1, 1, l, 1) }
	return attn.Attend(token(rows), token(rows), token(j.k.L), token(j.k.L), &opt)
}

// maskOf returns the mask of one head's bias: −Inf where it is −Inf, else 0.
func maskOf(bias attn.Tensor) attn.Tensor {
	mask := attn.BHLD(make([]float32, bias.L*bias.D), 1, 1, bias.L, bias.D)
	for i := range bias.L {
		row := mask.Row(0, 0, i)
		for k, x := range bias.Row(0, 0, i) {
			if math.IsInf(float64(x), -1) {
				row[k] = x
			}
		}
	}
	return mask
}

// picture returns the picture to draw.
func (h *heatmap) picture() *chart.Heatmap {
	p := &chart.Heatmap{Labels: h.labels, At: h.at}
	for n, head := range h.heads {
		p.Maps = append(p.Maps, chart.Heat{Title: fmt.Sprintf("head %d", head), Cells: h.cells[n]})
	}
	return p
}

// draw writes the picture.
func (h *heatmap) draw(w io.Writer, format chart.Format) error {
	return h.picture().Draw(w, format)
}

// mostMissing is the largest number of characters that a warning names.
const mostMissing = 8

// missing describes the characters of the labels that the picture does not show, each once.
func (h *heatmap) missing(format chart.Format) string {
	all := h.picture().Missing(format)
	if len(all) == 0 {
		return ""
	}
	var text []string
	for _, m := range all[:min(mostMissing, len(all))] {
		text = append(text, fmt.Sprintf("%#U (of %q)", m.Character, m.Label))
	}
	if more := len(all) - len(text); more > 0 {
		text = append(text, fmt.Sprintf("%d more characters", more))
	}
	note := ""
	if format != chart.SVG {
		note = "; an .svg file gets its fonts from whoever shows it"
	}
	return "cannot draw " + strings.Join(text, ", ") + ", a box or � stands there" + note
}
