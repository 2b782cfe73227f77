package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/embed/folder"
)

// pooling makes one row of those of a text's tokens, or several side by side.
type pooling []string

// poolings are those that sentence-transformers has, by its names. They add to a row of zeros.
var poolings = map[string]func(sum []float32, rows [][]float32){
	"cls":       func(sum []float32, rows [][]float32) { copy(sum, rows[0]) },
	"lasttoken": func(sum []float32, rows [][]float32) { copy(sum, rows[len(rows)-1]) },
	"max": func(sum []float32, rows [][]float32) {
		copy(sum, rows[0])
		for _, row := range rows[1:] {
			for j, x := range row {
				sum[j] = max(sum[j], x)
			}
		}
	},
	"mean": func(sum []float32, rows [][]float32) {
		addRows(sum, rows, false)
		divide(sum, float32(len(rows)))
	},
	"mean_sqrt_len_tokens": func(sum []float32, rows [][]float32) {
		addRows(sum, rows, false)
		divide(sum, float32(math.Sqrt(float64(len(rows)))))
	},
	"weightedmean": func(sum []float32, rows [][]float32) {
		addRows(sum, rows, true)
		divide(sum, float32(len(rows)*(len(rows)+1)/2))
	},
}

// addRows adds rows up, weighted by their places from 1 or not.
func addRows(sum []float32, rows [][]float32, weighted bool) {
	weight := float32(1)
	for _, row := range rows {
		for j, x := range row {
			sum[j] += float32(weight * x)
		}
		if weighted {
			weight++
		}
	}
}

func divide(x []float32, by float32) {
	for j := range x {
		x[j] /= by
	}
}

// row is one row of all poolings.
func (p pooling) row(rows [][]float32) []float32 {
	width := len(rows[0])
	out := make([]float32, len(p)*width)
	for i, mode := range p {
		poolings[mode](out[i*width:][:width], rows)
	}
	return out
}

// check refuses what is not known, or nothing.
func (p pooling) check() error {
	for _, mode := range p {
		if poolings[mode] == nil {
			return fmt.Errorf("the pooling is %q, want one of %s", mode,
				strings.Join(slices.Sorted(maps.Keys(poolings)), ", "))
		}
	}
	if len(p) == 0 {
		return fmt.Errorf("there is no pooling, want one or more")
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

// poolingFile is the config.json of a Pooling. Several of the older keys are side by side in this
// order.
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

// modes are those that are said to be used, or the mean.
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
		return f.Modes, f.Modes.check()
	case p == nil && f.Mean == nil:
		return pooling{"mean"}, nil
	case f.Mean == nil: // which is true or false in different versions of sentence-transformers
		return nil, fmt.Errorf("pooling_mode_mean_tokens is not there, want it beside keys for %q", p)
	}
	return p, p.check()
}

// readPooling reads the file of a Pooling in a folder, and returns the width of its rows.
func (s *sentence) readPooling(l *folder.Loader, path string, width int) int {
	var f poolingFile
	file := filepath.Join(path, "config.json")
	if path == "" {
		file = "1_Pooling/config.json"
		l.OptionalJSON(file, &f, nil)
	} else {
		l.JSON(file, &f, nil)
	}
	modes, err := f.modes()
	for _, said := range []*int{f.Width, f.OlderName} {
		if err == nil && said != nil && *said != width {
			err = fmt.Errorf("rows are to have %d numbers, want hidden_size of config.json, %d", *said,
				width)
		}
	}
	if err == nil && f.Prompt != nil && !*f.Prompt && s.prompt != "" {
		err = fmt.Errorf("include_prompt is false and the prompt %q, want true or no prompt", s.prompt)
	}
	l.Check(file, err)
	s.modes = modes
	return width * len(modes)
}

// override takes other poolings than the files say.
func (s *sentence) override(modes pooling) error {
	for _, step := range s.steps {
		if step.dense != nil && len(modes) != len(s.modes) {
			return fmt.Errorf("-pool has %d poolings, want %d, from which the model has a layer",
				len(modes), len(s.modes))
		}
	}
	s.modes = modes
	if err := modes.check(); err != nil {
		return fmt.Errorf("-pool: %w", err)
	}
	return nil
}
