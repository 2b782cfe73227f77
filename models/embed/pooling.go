package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// pooling reduces the rows of a text's tokens to one row. Several modes are concatenated.
type pooling []string

// poolings has the poolings of sentence-transformers: the weight of a token in the sum, by the
// number of tokens and its place from 1 on; nil for poolings that are no sums.
var poolings = map[string]func(count, place int) float32{
	"cls": nil, "lasttoken": nil, "max": nil,
	"mean":                 func(count, _ int) float32 { return 1 / float32(count) },
	"mean_sqrt_len_tokens": func(count, _ int) float32 { return 1 / root(count) },
	"weightedmean":         func(_, place int) float32 { return float32(place) },
}

func root(n int) float32 { return float32(math.Sqrt(float64(n))) }

// poolBatch writes the vectors of a batch to dst, rows of Dimensions numbers. The first skip tokens
// of each text are excluded from sums and maxima.
func (r *runner) poolBatch(dst []float32, skip int) {
	width := len(r.modes) * r.hidden
	r.pooled = resize(r.pooled, len(r.lens)*width)
	first := 0
	for i, n := range r.lens {
		rows := r.x[first*r.hidden:][:n*r.hidden]
		for j, mode := range r.modes {
			r.poolText(r.pooled[i*width+j*r.hidden:][:r.hidden], rows, mode, min(skip, n-1))
		}
		first += n
	}
	r.applySteps(len(r.lens), width)
	r.copyVectors(dst)
}

// poolText computes one pooling of one text.
func (r *runner) poolText(dst, rows []float32, mode string, skip int) {
	n := len(rows) / r.hidden
	switch weigh := poolings[mode]; {
	case weigh != nil:
		r.weightedSum(dst, rows[skip*r.hidden:], skip, weigh)
	case mode == "cls":
		copy(dst, rows)
	case mode == "lasttoken":
		copy(dst, rows[(n-1)*r.hidden:])
	default: // the largest numbers
		copy(dst, rows[skip*r.hidden:])
		for row := skip + 1; row < n; row++ {
			for j, x := range rows[row*r.hidden:][:r.hidden] {
				dst[j] = max(dst[j], x)
			}
		}
	}
}

// weightedSum multiplies rows by their weights as a matrix product, for its order of operations.
func (r *runner) weightedSum(dst, rows []float32, skip int, weigh func(count, place int) float32) {
	n := len(rows) / r.hidden
	r.weights = r.weights[:0]
	total := float32(0)
	for i := range n {
		r.weights = append(r.weights, weigh(n, skip+i+1))
		total += r.weights[i] // exact where it matters: places are integers
	}
	if weigh(n, 1) != weigh(n, 2) {
		for i := range r.weights {
			r.weights[i] /= total
		}
	}
	r.try(r.pool.MatMul(attn.BHLD(dst, 1, 1, 1, r.hidden), attn.BHLD(r.weights, 1, 1, 1, n),
		attn.BHLD(rows, 1, 1, n, r.hidden)))
}

// applySteps applies the layers after the pooling to n rows.
func (r *runner) applySteps(n, width int) {
	for _, s := range r.steps {
		x := attn.BHLD(r.pooled, 1, 1, n, width)
		if s.dense == nil {
			r.try(nn.L2Norm(r.pool, x, x, 0))
			continue
		}
		d := s.dense
		r.next = resize(r.next, n*d.Out)
		y := attn.BHLD(r.next, 1, 1, n, d.Out)
		if r.err == nil {
			r.err = d.Multiply(r.pool, y, x)
		}
		r.try(nn.Activate(r.pool, y, y, d.activation))
		r.pooled, r.next, width = r.next, r.pooled, d.Out
	}
}

// copyVectors copies the first Dimensions numbers of each row, and normalizes them if asked to.
func (r *runner) copyVectors(dst []float32) {
	n, width := len(r.lens), r.Dimensions()
	all := len(r.pooled) / n
	for i := range n {
		copy(dst[i*width:][:width], r.pooled[i*all:])
	}
	if r.options.Normalize {
		x := attn.BHLD(dst, 1, 1, n, width)
		r.try(nn.L2Norm(r.pool, x, x, 0))
	}
}

// resize returns n elements with any values.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}

// check refuses unknown modes and an empty list. name is where the modes are from.
func (p pooling) check(name string) error {
	known := strings.Join(slices.Sorted(maps.Keys(poolings)), ", ")
	for _, mode := range p {
		if _, ok := poolings[mode]; !ok {
			return fmt.Errorf("%s is %q, want one or more of %s", name, mode, known)
		}
	}
	if len(p) == 0 {
		return fmt.Errorf("%s says that there is no pooling, want one or more of %s", name, known)
	}
	return nil
}

// UnmarshalJSON reads a name or a list of them.
func (p *pooling) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) != nil {
		return json.Unmarshal(data, (*[]string)(p))
	}
	*p = pooling{one}
	return nil
}

// poolingFile is the config.json of a Pooling. If several of the older keys are true, their
// poolings are concatenated in this order.
type poolingFile struct {
	Modes     pooling `json:"pooling_mode"`
	Width     *int    `json:"embedding_dimension"`
	OlderName *int    `json:"word_embedding_dimension"`
	Prompt    *bool   `json:"include_prompt"`

	CLS          *bool `json:"pooling_mode_cls_token"`
	Max          *bool `json:"pooling_mode_max_tokens"`
	Mean         *bool `json:"pooling_mode_mean_tokens"`
	MeanSqrt     *bool `json:"pooling_mode_mean_sqrt_len_tokens"`
	WeightedMean *bool `json:"pooling_mode_weightedmean_tokens"`
	LastToken    *bool `json:"pooling_mode_lasttoken"`
}

// modes returns the poolings that the file selects, by default the mean.
func (f *poolingFile) modes() (p pooling, err error) {
	for i, used := range []*bool{f.CLS, f.Max, f.Mean, f.MeanSqrt, f.WeightedMean, f.LastToken} {
		if used != nil && *used {
			p = append(p, []string{"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean",
				"lasttoken"}[i])
		}
	}
	switch {
	case f.Modes != nil && p != nil && !slices.Equal(f.Modes, p):
		return nil, fmt.Errorf("pooling_mode is %q, and other keys say %q, want the same", f.Modes, p)
	case f.Modes != nil:
		return f.Modes, f.Modes.check("pooling_mode")
	case p == nil && f.Mean == nil:
		return pooling{"mean"}, nil
	case f.Mean == nil: // its default differs between versions of sentence-transformers
		return nil, fmt.Errorf("pooling_mode_mean_tokens is not there, want it with keys for %q", p)
	}
	if p == nil {
		return nil, errors.New("pooling_mode_mean_tokens is false, and there is no pooling, " +
			"want one or more")
	}
	return p, nil
}

// readPooling reads the file of a Pooling in a folder, and returns the width of its rows.
func (s *sentence) readPooling(l *weights.Loader, path string, width int) int {
	var f poolingFile
	file := filepath.Join(path, "config.json")
	if path == "" {
		file = "1_Pooling/config.json"
		l.OptionalJSON(file, &f, nil)
	} else {
		l.JSON(file, &f, nil)
	}
	modes, err := f.modes()
	for key, said := range map[string]*int{"embedding_dimension": f.Width,
		"word_embedding_dimension": f.OlderName} {
		if err == nil && said != nil && *said != width {
			err = fmt.Errorf("%s is %d, want %d, the width of rows by config.json", key, *said, width)
		}
	}
	s.withPrompt = f.Prompt == nil || *f.Prompt
	l.Check(file, err)
	s.modes = modes
	return width * len(modes)
}

// overridePooling replaces the poolings of the files by Options.Pooling.
func (s *sentence) overridePooling(modes pooling) error {
	for _, next := range s.steps {
		if next.dense != nil && len(modes) != len(s.modes) {
			return fmt.Errorf("Options.Pooling has %d poolings, want %d, for which the layer after them "+
				"was trained", len(modes), len(s.modes))
		}
	}
	s.modes = modes
	return modes.check("Options.Pooling")
}
