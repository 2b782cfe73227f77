//go:build cgo

package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	ort "github.com/yalue/onnxruntime_go"
)

// ortEncoder computes embeddings of texts: the mean of their tokens' rows, with length 1.
type ortEncoder struct {
	session *ort.DynamicAdvancedSession
	texts   [][]int32
	order   []int // of the texts, by length
	hidden  int
	dst     []float32
}

// ortBatches are sizes of batches. Texts are sorted by length and padded to the longest in a batch.
// Which size is fastest depends on the model.
var ortBatches = []int{1, 4, 8, 32}

// ortTexts computes the embeddings of a case's texts with the fastest size of batches.
func ortTexts(c *Case, dir string, integers bool, threads int) (call func() error,
	result func() []float32, err error) {
	b, err := newONNXBERT(c, dir)
	if err != nil {
		return nil, nil, err
	}
	options, err := ortOptions(threads)
	if err != nil {
		return nil, nil, err
	}
	defer options.Destroy()
	e := &ortEncoder{texts: c.textsOf(), hidden: c.Dim, dst: make([]float32, c.queries())}
	e.session, err = ort.NewDynamicAdvancedSessionWithONNXData(b.encode(),
		[]string{"ids", "segments", "mask"}, []string{b.outputs[0].name}, options)
	if err != nil {
		return nil, nil, err
	}
	opened = e
	for i := range e.texts {
		e.order = append(e.order, i)
	}
	slices.SortFunc(e.order, func(i, j int) int {
		return cmp.Compare(len(e.texts[i]), len(e.texts[j]))
	})
	size, err := e.fastest()
	return func() error { return e.encode(size) }, func() []float32 { return e.dst }, err
}

// Close frees the model's memory.
func (e *ortEncoder) Close() error { return e.session.Destroy() }

// fastest tries the sizes of batches, after a call that allocates memory.
func (e *ortEncoder) fastest() (best int, err error) {
	least := time.Duration(math.MaxInt64)
	if err := e.batch(e.order[len(e.order)-1:]); err != nil {
		return 0, err
	}
	for _, size := range ortBatches {
		start := time.Now()
		if err := e.encode(size); err != nil {
			return 0, err
		}
		if took := time.Since(start); took < least {
			least, best = took, size
		}
	}
	return best, nil
}

// encode computes all embeddings, in batches of size texts.
func (e *ortEncoder) encode(size int) error {
	for batch := range slices.Chunk(e.order, size) {
		if err := e.batch(batch); err != nil {
			return err
		}
	}
	return nil
}

func (e *ortEncoder) batch(texts []int) error {
	long := len(e.texts[texts[len(texts)-1]])
	ids, segments := make([]int32, len(texts)*long), make([]int32, len(texts)*long)
	mask := make([]int32, len(texts)*long)
	for i, text := range texts {
		for j, id := range e.texts[text] {
			ids[i*long+j], mask[i*long+j] = id, 1
		}
	}
	var in []ort.Value
	for _, data := range [][]int32{ids, segments, mask} {
		t, err := ort.NewTensor(ort.NewShape(int64(len(texts)), int64(long)), data)
		if err != nil {
			return err
		}
		defer t.Destroy()
		in = append(in, t)
	}
	out := []ort.Value{nil}
	if err := e.session.Run(in, out); err != nil {
		return err
	}
	defer out[0].Destroy()
	rows := out[0].(*ort.Tensor[float32]).GetData()
	for i, text := range texts {
		e.mean(e.dst[text*e.hidden:][:e.hidden], rows[i*long*e.hidden:], len(e.texts[text]))
	}
	return nil
}

// mean computes the mean with length 1.
func (e *ortEncoder) mean(dst, rows []float32, n int) {
	clear(dst)
	for row := range slices.Chunk(rows[:n*e.hidden], e.hidden) {
		for j, x := range row {
			dst[j] += x
		}
	}
	sum := 0.0
	for _, x := range dst {
		sum += float64(x) * float64(x)
	}
	for j := range dst {
		dst[j] /= float32(math.Sqrt(sum))
	}
}
