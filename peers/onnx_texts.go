//go:build cgo

package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/seed-1415985d/attn"
)

// ortEncoder computes embeddings of texts, the mean of their tokens' rows with length 1; or the
// probabilities of a text's labels; or the embedding of an image.
type ortEncoder struct {
	session *ort.DynamicAdvancedSession
	shape   encoder
	texts   [][]int32
	order   []int // of the texts, by length
	size    int   // of batches
	image   ort.Value
	dst     []float32
}

// ortBatches are sizes of batches. Texts are sorted by length and padded to the longest in a batch.
// Which size is fastest depends on the model.
var ortBatches = []int{1, 4, 8, 32}

// ortEncode computes a case of texts or images; without padding, with the faster one of two
// operators of attention.
func ortEncode(c *Case, dir string, threads int) (call func() error, result func() []float32,
	err error) {
	e, took, err := openEncoder(c, dir, threads, false)
	if err != nil {
		return nil, nil, err
	}
	if e.shape.image > 0 || e.shape.TokenLabels > 0 {
		other, otherTook, err := openEncoder(c, dir, threads, true)
		if err != nil {
			return nil, nil, err
		}
		if otherTook < took {
			e, other = other, e
		}
		_ = other.Close() // it is only measured
	}
	opened = e
	return e.run, func() []float32 { return e.dst }, nil
}

// openEncoder returns the least time of a call, too.
func openEncoder(c *Case, dir string, threads int, multiHead bool) (e *ortEncoder,
	took time.Duration, err error) {
	b, err := newONNXEncoder(c, dir, multiHead)
	if err != nil {
		return nil, 0, err
	}
	options, err := ortOptions(threads)
	if err != nil {
		return nil, 0, err
	}
	defer options.Destroy()
	e = &ortEncoder{texts: c.textsOf(), dst: make([]float32, c.queries())}
	e.shape, _, _ = c.encoder()
	var in []string
	for _, v := range b.inputs {
		in = append(in, v.name)
	}
	e.session, err = ort.NewDynamicAdvancedSessionWithONNXData(b.encode(), in,
		[]string{b.outputs[0].name}, options)
	if err == nil && e.shape.image > 0 {
		e.image, err = ort.NewTensor(b.inputs[0].dims, e.shape.patchRows())
	}
	if err != nil {
		return nil, 0, err
	}
	for i := range e.texts {
		e.order = append(e.order, i)
	}
	slices.SortFunc(e.order, func(i, j int) int {
		return cmp.Compare(len(e.texts[i]), len(e.texts[j]))
	})
	took, err = e.fastest()
	return e, took, err
}

// Close frees the model's memory.
func (e *ortEncoder) Close() error { return e.session.Destroy() }

// fastest sets the size of batches after tries, and a call that allocates memory.
func (e *ortEncoder) fastest() (least time.Duration, err error) {
	e.size, least = 1, math.MaxInt64
	if err := e.run(); err != nil {
		return 0, err
	}
	best := 0
	for _, e.size = range ortBatches {
		start := time.Now()
		if err := e.run(); err != nil {
			return 0, err
		}
		if took := time.Since(start); took < least {
			least, best = took, e.size
		}
	}
	e.size = best
	return least, nil
}

// run computes the image, or all texts in batches.
func (e *ortEncoder) run() error {
	if e.image != nil {
		return e.compute([]ort.Value{e.image}, func(x []float32) { copy(e.dst, x) })
	}
	for batch := range slices.Chunk(e.order, e.size) {
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
	return e.compute(in, func(rows []float32) {
		if n := e.shape.TokenLabels; n > 0 {
			e.label(rows, n)
			return
		}
		d := e.shape.Hidden
		for i, text := range texts {
			mean(e.dst[text*d:][:d], rows[i*long*d:], len(e.texts[text]))
		}
	})
}

// compute runs the model and calls a function with its output.
func (e *ortEncoder) compute(in []ort.Value, use func(output []float32)) error {
	out := []ort.Value{nil}
	if err := e.session.Run(in, out); err != nil {
		return err
	}
	defer out[0].Destroy()
	use(out[0].(*ort.Tensor[float32]).GetData())
	return nil
}

// label computes the probabilities of labels of a text without its first token and its last one.
func (e *ortEncoder) label(rows []float32, labels int) {
	for i := range e.dst {
		row := rows[(i+1)*labels:][:labels]
		attn.Softmax(row, row)
		e.dst[i] = slices.Max(row)
	}
}

// mean computes the mean with length 1.
func mean(dst, rows []float32, n int) {
	clear(dst)
	for row := range slices.Chunk(rows[:n*len(dst)], len(dst)) {
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
