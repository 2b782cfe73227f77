package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
	"github.com/seed-1415985d/attn/cmd/attn/internal/regular"
)

// heatmap collects the attention weights of some heads of one batch entry.
// Long sequences are reduced to what a picture can show: a cell is the
// largest weight that falls into it, so that no sharp peak is lost.
type heatmap struct {
	batch  int
	heads  []int
	cells  []chart.Cells
	labels []string // of the keys, or nil
	at     int      // absolute position of query 0, or nowhere
}

// nowhere is a position at which no query has a label: what token a query is, is not known.
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
	for _, s := range strings.Split(f.pngHeads, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return nil, usagef("-png-heads is %q, want numbers such as 0,3", f.pngHeads)
		}
		if n < 0 || n >= j.q.H {
			return nil, fmt.Errorf("-png-heads names head %d, want 0 to %d", n, j.q.H-1)
		}
		h.heads = append(h.heads, n)
		h.cells = append(h.cells, chart.NewCells(j.q.L, j.k.L, maxCells))
	}
	if f.labels != "" {
		return h, h.readLabels(f.labels, j.k.L)
	}
	return h, nil
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

// collect takes the weights out of the job's output if it has them, and
// computes some rows at a time if not.
func (h *heatmap) collect(j *job, p *progress) error {
	rows := min(j.q.L, max(1, (1<<20)/j.k.L))
	weights := make([]float32, rows*j.k.L)
	dst := make([]float32, rows*j.v.D)
	for n, head := range h.heads {
		for i := 0; i < j.q.L; i += rows {
			s := slice{h.batch, head, head + 1, i, min(i+rows, j.q.L)}
			w := part(j.weights, s.b, s.h0, s.h1, s.i0, s.i1)
			if w.Data == nil {
				w = attn.BHLD(weights, 1, 1, s.i1-s.i0, j.k.L)
				opt := j.options(s)
				opt.Weights = &w
				if err := j.call(s, attn.BHLD(dst, 1, 1, s.i1-s.i0, j.v.D), &opt); err != nil {
					return err
				}
			}
			for r := range w.L {
				h.cells[n].Add(i+r, w.Data[r*w.SL:][:w.D])
			}
			p.add(s.i1 - s.i0)
		}
	}
	return nil
}

// picture is what is drawn.
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

// mostMissing is how many characters a warning names.
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
