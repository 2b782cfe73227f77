package lm

import (
	"cmp"
	"math"
	"sync"

	"github.com/seed-1415985d/attn"
)

// textbook is attention by the textbook, over float32 keys and values, one token after another. It
// copies new tokens from the engine's stores, which needs a thousandth of its time.
type textbook struct {
	*pages
	model   *model
	workers int
	kept    map[*attn.Sequence]*[2][]float32 // keys and values
}

// newTextbook is an engine's cache with this attention.
func newTextbook(e *engine) *textbook {
	return &textbook{e.pages, e.model, e.settings.workers, map[*attn.Sequence]*[2][]float32{}}
}

// step gives each worker heads at equal distances.
func (t *textbook) step(layer int, dst, q, k, v attn.Tensor, pieces []piece) error {
	if _, err := t.append(layer, k, v, pieces); err != nil {
		return err
	}
	for _, p := range pieces {
		q := p.seq.(paged).layers[layer]
		if err := t.copy(layer, q, q.Len()-len(p.tokens)); err != nil {
			return err
		}
	}
	var done sync.WaitGroup
	for w := range t.workers {
		done.Go(func() {
			for h := w; h < t.model.Heads; h += t.workers {
				t.head(layer, h, dst, q, pieces)
			}
		})
	}
	done.Wait()
	return nil
}

// copy reads the tokens of a layer after the first before ones.
func (t *textbook) copy(layer int, s *attn.Sequence, before int) error {
	heads, dim := t.model.kvHeads(layer), t.model.headDim(layer)
	if t.kept[s] == nil {
		t.kept[s] = &[2][]float32{}
	}
	kept, width := t.kept[s], heads*dim
	have := min(len(kept[0])/width, before)
	var views [2]attn.Tensor
	for i := range kept {
		kept[i] = append(kept[i][:have*width], make([]float32, (s.Len()-have)*width)...)
		views[i] = attn.BLHD(kept[i][have*width:], 1, s.Len()-have, heads, dim)
	}
	return s.Read(views[0], views[1], have)
}

func (t *textbook) head(layer, h int, dst, q attn.Tensor, pieces []piece) {
	var scores []float32
	heads, dim := t.model.kvHeads(layer), t.model.headDim(layer)
	row, at := 0, h/(t.model.Heads/heads)*dim
	for _, p := range pieces {
		kept := t.kept[p.seq.(paged).layers[layer]]
		for i := range p.tokens {
			n, first := p.seq.(paged).layers[layer].Len()-len(p.tokens)+i+1, 0
			if w := t.model.Windows[layer]; w > 0 {
				first = max(0, n-w)
			}
			scores = resize(scores, n-first) // for the keys that the query sees
			from := at + first*heads*dim
			t.row(dst.Row(0, h, row), q.Row(0, h, row), kept[0][from:], kept[1][from:], scores,
				heads*dim)
			row++
		}
	}
}

// row is softmax(q·Kᵀ/√dim)·V for one query, or with the model's own scale. Keys lie at distances
// of stride.
func (t *textbook) row(dst, q, k, v, scores []float32, stride int) {
	scale := cmp.Or(t.model.ScoreScale, float32(1/math.Sqrt(float64(len(q)))))
	top := float32(math.Inf(-1))
	for j := range scores {
		sum := float32(0)
		for d, x := range k[j*stride:][:len(q)] {
			sum += q[d] * x
		}
		scores[j] = sum * scale
		top = max(top, scores[j])
	}
	total := float32(0)
	for j, s := range scores {
		scores[j] = float32(math.Exp(float64(s - top)))
		total += scores[j]
	}
	clear(dst)
	for j, s := range scores {
		weight := s / total
		for d, x := range v[j*stride:][:len(q)] {
			dst[d] += weight * x
		}
	}
}
