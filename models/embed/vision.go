package embed

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// vision replaces the tables of tokens in a tower of pictures: each picture is a grid of patches,
// whose numbers are multiplied by a matrix.
type vision struct {
	processor *processor
	image     rectangle // the picture size of the table of positions
	patch     int       // side of a patch
	input     rectangle // size of pictures after preprocessing; zero if each keeps its shape
	grid      rectangle // counted in patches
	registers int

	// resampled is how a table of positions is resampled to another grid; noResampling refuses it.
	resampled gridResampling

	tensors visionTensors
	patches weights.Linear
	before  []float32 // rows before the patches: the class row with its position, and registers
	table   []float32 // positions of the patches of image
	places  []float32 // a row to add to each patch
	head    *attentionHead
}

// visionTensors are names of tensors, "" for tensors that the kind does not have.
type visionTensors struct {
	class, registers, patches, positions, head string
	patchBias                                  bool
}

// rows returns the number of rows of a picture.
func (v *vision) rows(hidden int) int { return len(v.before)/hidden + v.grid.h*v.grid.w }

// visionConfig has the keys of a config for pictures.
type visionConfig struct {
	Image    oneOrTwo `json:"image_size"`
	Patch    oneOrTwo `json:"patch_size"`
	Channels int      `json:"num_channels"`
}

// oneOrTwo is the side of a square, or height and width.
type oneOrTwo = weights.OneOrMore

// newVision checks sizes, and sets those of the processor. It returns nil after an error.
func newVision(l *weights.Loader, c *visionConfig, p *processor, r gridResampling) *vision {
	image, err := rectangleOf("image_size", c.Image)
	l.Check(configJSON, err)
	patch, err := rectangleOf("patch_size", c.Patch)
	l.Check(configJSON, err)
	if l.Err != nil {
		return nil
	}
	if patch.h != patch.w || patch.h > min(image.h, image.w) || c.Channels != 3 {
		l.Check(configJSON,
			fmt.Errorf("patch_size is %d × %d, image_size %d × %d and num_channels %d, want square "+
				"patches within the image, and 3", patch.h, patch.w, image.h, image.w, c.Channels))
		return nil
	}
	v := &vision{processor: p, image: image, patch: patch.h, resampled: r}
	if v.input, err = p.output(); err != nil {
		if r == noResampling {
			l.Check(processorJSON, err)
			return nil
		}
		return v
	}
	if r == noResampling && v.input != image {
		l.Check(configJSON, fmt.Errorf("image_size is %d × %d, and %s makes pictures of %d × %d, want "+
			"the same", image.h, image.w, processorJSON, v.input.h, v.input.w))
	}
	l.Check(processorJSON, v.divide())
	if l.Err != nil {
		return nil
	}
	return v
}

// divide finds the grid of pictures.
func (v *vision) divide() error {
	v.grid = rectangle{v.input.h / v.patch, v.input.w / v.patch}
	if v.grid.h < 1 || v.grid.w < 1 || v.grid.h > mostPatches/v.grid.w {
		return fmt.Errorf("crop_size and size make pictures of %d × %d, which are %d × %d patches of "+
			"patch_size %d, want 1 to %d patches", v.input.h, v.input.w, v.grid.h, v.grid.w, v.patch,
			mostPatches)
	}
	return nil
}

const mostPatches = 1 << 16

// varies reports whether pictures keep their shapes.
func (v *vision) varies() bool { return v.input == rectangle{} }

// of returns what pictures of a size after preprocessing need. was is the result for the picture
// before.
func (v *vision) of(size rectangle, hidden int, was *vision) (*vision, error) {
	if was != nil && was.input == size {
		return was, nil
	}
	made := *v
	made.input = size
	err := made.divide()
	if err == nil {
		made.resample(hidden)
	}
	return &made, err
}

// resample makes the rows of places from the table.
func (v *vision) resample(hidden int) {
	from := rectangle{v.image.h / v.patch, v.image.w / v.patch}
	v.places = v.resampled.resample(v.table, from, v.grid, hidden)
}

func rectangleOf(key string, sides oneOrTwo) (rectangle, error) {
	if len(sides) == 1 {
		sides = oneOrTwo{sides[0], sides[0]}
	}
	if len(sides) != 2 || slices.Min(sides) < 1 || slices.Max(sides) > mostSide {
		return rectangle{}, fmt.Errorf("%s is %v, want one or two numbers of 1 to %d", key, sides,
			mostSide)
	}
	return rectangle{sides[0], sides[1]}, nil
}

// loadVision loads the tensors before the layers, and the attention head.
func (b *builder) loadVision() {
	v := b.description.vision
	if v == nil || b.Err != nil {
		return
	}
	t, side := &v.tensors, v.patch
	v.patches = b.Linear(attn.F32, 3*side*side, t.patchBias, weights.Part{Name: b.at + t.patches,
		Out: b.hidden, In: []int{3, side, side}})
	if t.class != "" {
		v.before = b.Tensor(b.at+t.class, 1, 1, b.hidden)
	}
	table, classes := rectangle{v.image.h / side, v.image.w / side}, len(v.before)/b.hidden
	positions := b.Tensor(b.at+t.positions, 1, classes+table.h*table.w, b.hidden)
	if t.registers != "" {
		v.before = append(v.before, b.Tensor(b.at+t.registers, 1, v.registers, b.hidden)...)
	}
	if b.Err != nil {
		return
	}
	for i := range classes * b.hidden {
		v.before[i] += positions[i]
	}
	if v.table = positions[classes*b.hidden:]; !v.varies() {
		v.resample(b.hidden)
		v.table = nil // places are enough
	}
	if t.head != "" {
		v.head = b.loadAttentionHead(b.at + t.head)
	}
}

// attentionHead is SigLIP's pooling: a learned query attends to the rows of a picture.
type attentionHead struct {
	query      []float32
	keysValues weights.Linear
	output     weights.Linear
	norm       norm
	up, down   weights.Linear
}

func (b *builder) loadAttentionHead(at string) *attentionHead {
	h, n := &attentionHead{}, b.hidden
	weight, bias := b.Tensor(at+"attention.in_proj_weight", 3*n, n),
		b.Tensor(at+"attention.in_proj_bias", 3*n)
	probe := b.Tensor(at+"probe", 1, 1, n)
	kind := attn.F32
	if b.Integers {
		kind = attn.I8
	}
	linear := func(name string, in, out int) weights.Linear {
		return b.Linear(kind, in, true, weights.Part{Name: at + name, Out: out})
	}
	h.output = linear("attention.out_proj", n, n)
	h.norm = norm{b.Tensor(at+"layernorm.weight", n), b.Tensor(at+"layernorm.bias", n)}
	h.up, h.down = linear("mlp.fc1", n, b.ffn), linear("mlp.fc2", b.ffn, n)
	if b.Err != nil {
		return nil
	}
	name := at + "attention.in_proj_weight"
	query := b.Pack(attn.F32, name, weight[:n*n], n, n)
	query.Bias, h.query = bias[:n], make([]float32, n)
	h.keysValues = b.Pack(kind, name, weight[n*n:], n, 2*n)
	h.keysValues.Bias = bias[n:]
	if b.Err == nil {
		b.Err = query.Multiply(nil, attn.BHLD(h.query, 1, 1, 1, n), attn.BHLD(probe, 1, 1, 1, n))
	}
	b.Packed -= query.MemoryUse()
	return h
}

// embedPatches sets x to the input rows of the layers.
func (s *slab) embedPatches() {
	v := s.pictures.vision
	each, ahead, in := v.rows(s.hidden), len(v.before)/s.hidden, v.patches.In
	for row := s.first; row < s.first+s.rows; {
		image, i, left := row/each, row%each, s.first+s.rows-row
		to := s.runner.x[row*s.hidden:]
		if i < ahead {
			n := min(ahead-i, left)
			copy(to, v.before[i*s.hidden:][:n*s.hidden])
			row += n
			continue
		}
		n, patch := min(each-i, left), i-ahead
		x := attn.BHLD(to, 1, 1, n, s.hidden)
		from := s.pictures.patches[(image*v.grid.h*v.grid.w+patch)*in:]
		if s.err == nil {
			s.err = v.patches.Multiply(s.pool, x, attn.BHLD(from, 1, 1, n, in))
		}
		s.try(nn.Add(s.pool, x, x, attn.BHLD(v.places[patch*s.hidden:], 1, 1, n, s.hidden)))
		row += n
	}
	if s.tables.norm != nil {
		s.normalize(s.x(), s.x(), s.tables.norm)
	}
}

// attendHead writes SigLIP's vectors of the batch to dst.
func (r *runner) attendHead(dst []float32, h *attentionHead) {
	images, n, w := len(r.lens), r.hidden, r.width
	r.next = resize(r.next, r.tokens*2*n)
	if r.err == nil {
		r.err = h.keysValues.Multiply(r.pool, attn.BHLD(r.next, 1, 1, r.tokens, 2*n),
			attn.BHLD(r.x, 1, 1, r.tokens, n))
	}
	each := r.tokens / images
	view := func(x []float32, rows, pitch int) attn.Tensor {
		return inBatch(attn.Rows(x, 1, images*rows, r.heads, w, pitch), images)
	}
	r.attended = resize(r.attended, images*n)
	query := attn.Tensor{Data: h.query, B: images, H: r.heads, L: 1, D: w, SB: attn.Broadcast, SH: w,
		SL: n}
	r.try(r.attendRows(view(r.attended, 1, n), query, view(r.next, each, 2*n),
		view(r.next[n:], each, 2*n)))
	x := attn.BHLD(dst, 1, 1, images, n)
	apply := func(to []float32, from attn.Tensor, by *weights.Linear) attn.Tensor {
		y := attn.BHLD(to, 1, 1, images, by.Out)
		if r.err == nil {
			r.err = by.Multiply(r.pool, y, from)
		}
		return y
	}
	apply(dst, attn.BHLD(r.attended, 1, 1, images, n), &h.output)
	r.next = resize(r.next, images*(n+r.ffn))
	normal := attn.BHLD(r.next, 1, 1, images, n)
	r.try(nn.LayerNorm(r.pool, normal, x, h.norm.weight, h.norm.bias, r.epsilon))
	wide := apply(r.next[images*n:], normal, &h.up)
	r.try(nn.Activate(r.pool, wide, wide, r.activation))
	r.try(nn.Add(r.pool, x, x, apply(r.next, wide, &h.down)))
}

func (r *runner) attendRows(dst, q, k, v attn.Tensor) error {
	if r.err != nil {
		return r.err
	}
	return r.pool.Attend(dst, q, k, v, &attn.Options{Integers: r.options.Integers})
}

// gridResampling is how a table of positions is resampled to another grid.
type gridResampling int

const (
	noResampling    gridResampling = iota
	cubicResampling                // from four rows and columns, as in DINOv2
	smoothed                       // from as many as a smaller grid needs, as in DINOv2 with registers
)

// resample returns the table for a grid, in rows of n numbers.
func (g gridResampling) resample(table []float32, from, to rectangle, n int) []float32 {
	if from == to && from.h == from.w || g == noResampling {
		return table
	}
	columns, rows := g.taps(from.w, to.w), g.taps(from.h, to.h)
	narrow := make([]float32, from.h*to.w*n)
	for y := range from.h {
		for x, c := range columns {
			for _, t := range c {
				addScaled(narrow[(y*to.w+x)*n:][:n], table[(y*from.w+t.from)*n:], t.weight)
			}
		}
	}
	made := make([]float32, to.h*to.w*n)
	for y, c := range rows {
		for _, t := range c {
			addScaled(made[y*to.w*n:][:to.w*n], narrow[t.from*to.w*n:], t.weight)
		}
	}
	return made
}

// addScaled adds a multiple of a row.
func addScaled(to, from []float32, by float32) {
	for i := range to {
		to[i] += float32(from[i] * by)
	}
}

// gridTap is a source row or column, and its weight.
type gridTap struct {
	from   int
	weight float32
}

// taps returns the sources of each of out rows or columns, of in ones.
func (g gridResampling) taps(in, out int) [][]gridTap {
	all := make([][]gridTap, out)
	ratio := float64(in) / float64(out)
	for i := range all {
		center := float64((float64(i) + 0.5) * ratio)
		if g == smoothed {
			all[i] = smoothTaps(in, center, max(ratio, 1))
			continue
		}
		x := center - 0.5
		at := floor(x)
		for j := at - 1; j <= at+2; j++ { // edges are repeated
			w := cubic(abs(x-float64(j)), -0.75)
			all[i] = append(all[i], gridTap{min(max(j, 0), in-1), float32(w)})
		}
	}
	return all
}

// smoothTaps returns the sources of Pillow's resize, with weights that are not rounded to integers.
func smoothTaps(in int, center, scale float64) (list []gridTap) {
	support := float64(2 * scale)
	first, end := max(0, int(center-support+0.5)), min(in, int(center+support+0.5))
	sum := 0.0
	for pass := range 2 {
		for i := first; i < end; i++ {
			w := cubic(abs(float64((float64(i)-center+0.5)*(1/scale))), -0.5)
			if pass == 0 {
				sum += w
			} else {
				list = append(list, gridTap{i, float32(w / sum)})
			}
		}
	}
	return list
}

func floor(x float64) int {
	n := int(x)
	if float64(n) > x {
		n--
	}
	return n
}

func abs(x float64) float64 { return max(x, -x) }
