package lm

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// states is the shape of layers that keep a state for each head instead of keys and values, by the
// gated delta rule.
type states struct {
	Layers           []bool // which layers keep states; nil for none
	KeyHeads, Heads  int    // Heads counts the heads of values
	KeyDim, ValueDim int
	Width            int  // of the convolution before the states
	Mamba            bool // the states are of Mamba-2, not of the gated delta rule
	Biased           bool // the convolution before these has biases
	Short            int  // channels of short convolutions in place of states; 0 for states
	Interleaved      bool // state h uses head h mod KeyHeads of keys, otherwise h/(Heads/KeyHeads)
	Negated          bool // the file has decays as −e^A, not as A
}

// of reports whether a layer keeps states.
func (s *states) of(layer int) bool { return s.Layers != nil && s.Layers[layer] }

// channels returns the channels of the convolution, in layers with states those of queries, keys
// and values.
func (s *states) channels() int { return s.Short + 2*s.KeyHeads*s.KeyDim + s.Heads*s.ValueDim }

func (s *states) config() linattn.Config {
	c := linattn.Config{Heads: s.Heads, QueryHeads: s.KeyHeads, KeyHeads: s.KeyHeads, KeyDim: s.KeyDim,
		ValueDim: s.ValueDim, Rule: linattn.GatedDelta}
	if s.Interleaved {
		c.Grouping = linattn.Interleaved
	}
	if s.Mamba {
		c.Rule, c.Scale = linattn.Gated, 1
	}
	return c
}

// checkShort refuses short convolutions of a width that there is not. key is the file's name of it.
func (s *states) checkShort(key string) error {
	if s.Width < 2 || s.Width > 4096 {
		return fmt.Errorf("%s is %d, want 2 to 4096", key, s.Width)
	}
	return nil
}

// memoryUse returns the bytes of a sequence in a layer.
func (s *states) memoryUse() (bytes int, err error) {
	if s.Short > 0 {
		return 4 * (s.Width + linattn.Chunk) * s.Short, nil
	}
	state, err := linattn.NewState(s.config())
	if err != nil {
		return 0, err
	}
	bytes = state.MemoryUse() + 4*s.Width*s.channels()
	return bytes, state.Close()
}

// check refuses shapes that do not fit. Its arguments are the file's names of the keys.
func (s *states) check(names ...string) error {
	err := weights.Sizes(names, s.Width, s.KeyDim, s.ValueDim, s.KeyHeads, s.Heads)
	if err == nil && s.Heads%s.KeyHeads != 0 {
		err = fmt.Errorf("%s is %d, want a multiple of %s, %d", names[4], s.Heads, names[3], s.KeyHeads)
	}
	if err == nil && s.Width > 4096 {
		err = fmt.Errorf("%s is %d, want at most 4096", names[0], s.Width)
	}
	return err
}

// delta is the weights of a layer that keeps states.
type delta struct {
	qkv, z, b, a, out weights.Linear
	conv              nn.ConvConfig
	step              []float32 // added to a,
	decay             []float32 // which is multiplied by decay, −e^A
	norm              []float32 // of the outputs of a head
}

// delta loads a layer that keeps states.
func (b *layerBuilder) delta(n *layerNames) *delta {
	s, d := &b.States, &delta{}
	k, v := s.KeyHeads*s.KeyDim, s.Heads*s.ValueDim
	if n.qkvz != "" && (n.mixed == "" || b.Has(b.at+n.qkvz+".weight")) {
		// the values of a head of keys follow it
		group := []int{s.KeyDim, s.KeyDim, v / s.KeyHeads, v / s.KeyHeads}
		rows := groupRows(s.KeyHeads, group...)
		d.qkv = b.linear(b.rows(n.qkvz, 2*k+2*v, slices.Concat(rows[:3]...)), b.Dim, false)
		d.z = b.linear(b.rows(n.qkvz, 2*k+2*v, rows[3]), b.Dim, false)
	} else {
		d.qkv = b.linear(b.part(n.mixed, s.channels()), b.Dim, false)
		d.z = b.linear(b.part(n.z, v), b.Dim, false)
	}
	if n.ba != "" {
		rows := groupRows(s.KeyHeads, s.Heads/s.KeyHeads, s.Heads/s.KeyHeads)
		d.b = b.linear(b.rows(n.ba, 2*s.Heads, rows[0]), b.Dim, false)
		d.a = b.linear(b.rows(n.ba, 2*s.Heads, rows[1]), b.Dim, false)
	} else {
		d.b = b.linear(b.part(n.beta, s.Heads), b.Dim, false)
		d.a = b.linear(b.part(n.alpha, s.Heads), b.Dim, false)
	}
	d.out = b.linear(b.part(n.stateOut, b.Dim), v, false)
	shape := []int{s.channels(), s.Width}
	if !s.Negated { // folders have A
		shape = []int{s.channels(), 1, s.Width}
	}
	d.conv = nn.ConvConfig{Channels: s.channels(), Width: s.Width, Activation: nn.SiLU,
		Weight: b.Tensor(b.at+n.conv, shape...)}
	d.step, d.decay = b.Tensor(b.at+n.step, s.Heads), b.Tensor(b.at+n.decay, s.Heads)
	if !s.Negated && b.Err == nil {
		attn.Exp(d.decay, d.decay)
		for i := range d.decay {
			d.decay[i] = -d.decay[i]
		}
	}
	d.norm = b.Tensor(b.at+n.stateNorm+".weight", s.ValueDim)
	return d
}

// rows returns the weights of some outputs of a tensor.
func (b *layerBuilder) rows(name string, all int, order []int) weights.Part {
	return weights.Part{Name: b.at + name, Out: len(order), Of: all, Order: order}
}

// groupRows returns the rows of each kind where every group has rows of each kind, one kind after
// another.
func groupRows(groups int, sizes ...int) [][]int {
	rows, at := make([][]int, len(sizes)), 0
	for range groups {
		for kind, n := range sizes {
			for range n {
				rows[kind], at = append(rows[kind], at), at+1
			}
		}
	}
	return rows
}

// stateful is the buffers of a runner for layers that keep states.
type stateful struct {
	mixed, z, beta, decay, outputs []float32
	values                         []float32 // of Mamba-2, times their steps
	skip                           []float32 // of the current layer
	queries                        []int
}

// delta computes the hidden rows from the normed rows in a layer that keeps states.
func (r *runner) delta(i int, d *delta, pieces []piece) {
	s, x, shape := &r.stateful, len(r.normed)/r.Dim, &r.States
	r.multiply(r.normed, product{&s.mixed, &d.qkv}, product{&s.z, &d.z}, product{&s.beta, &d.b},
		product{&s.decay, &d.a})
	convs, kept, err := r.cache.states(i, pieces)
	if r.try(err); r.err != nil {
		return
	}
	s.queries = queriesOf(pieces, s.queries)
	lens, all := s.queries, attn.BHLD(s.mixed, 1, 1, x, shape.channels())
	r.try(nn.AppendConvs(r.pool, all, all, convs, lens))
	width := shape.KeyHeads * shape.KeyDim
	q := attn.Rows(s.mixed, 1, x, shape.KeyHeads, shape.KeyDim, all.D)
	k := attn.Rows(s.mixed[width:], 1, x, shape.KeyHeads, shape.KeyDim, all.D)
	v := attn.Rows(s.mixed[2*width:], 1, x, shape.Heads, shape.ValueDim, all.D)
	r.try(nn.L2Norm(r.pool, q, q, 1e-6))
	r.try(nn.L2Norm(r.pool, k, k, 1e-6))
	beta, decay := attn.BLHD(s.beta, 1, x, shape.Heads, 1), attn.BLHD(s.decay, 1, x, shape.Heads, 1)
	r.try(nn.Activate(r.pool, beta, beta, nn.Sigmoid))
	rows := rowsOf(s.decay, shape.Heads)
	each := func(row []float32) attn.Tensor {
		return attn.Tensor{Data: row, B: 1, H: 1, L: x, D: shape.Heads, SB: 1, SH: 1, SL: attn.Broadcast}
	}
	// This is linattn.Decay with −e^A for A: GGUF files have that, and it is exact.
	r.try(nn.Add(r.pool, rows, rows, each(d.step)))
	r.try(nn.Activate(r.pool, rows, rows, nn.Softplus))
	r.try(nn.Gate(r.pool, rows, rows, each(d.decay), nn.None))
	s.outputs = resize(s.outputs, x*shape.Heads*shape.ValueDim)
	if r.err == nil {
		dst := attn.BLHD(s.outputs, 1, x, shape.Heads, shape.ValueDim)
		r.try(linattn.AppendStates(r.pool, dst, q, k, v, decay, beta, kept, lens))
	}
	heads, gates := rowsOf(s.outputs, shape.ValueDim), rowsOf(s.z, shape.ValueDim)
	r.try(nn.RMSNorm(r.pool, heads, heads, d.norm, float32(r.Epsilon)))
	r.try(nn.Gate(r.pool, heads, gates, heads, nn.SiLU))
	r.multiply(s.outputs, product{&r.hidden, &d.out})
}

// layerState is the state of a sequence in one layer.
type layerState struct {
	conv  *nn.Conv
	state *linattn.State // nil in a layer with a short convolution
	mark  int            // length in tokens to which it can go back
}

func newKept(l *decoderLayer, s *states) (k layerState, err error) {
	switch {
	case l.short != nil:
		k.conv, err = nn.NewConv(l.short.conv)
		return k, err
	case l.mamba != nil:
		k.conv, err = nn.NewConv(l.mamba.conv)
	default:
		k.conv, err = nn.NewConv(l.delta.conv)
	}
	if err == nil {
		k.state, err = linattn.NewState(s.config())
	}
	return k, err
}

// fork returns the first n tokens for another sequence, if the state can go back to them.
func (k layerState) fork(n int) (layerState, bool) {
	f := layerState{conv: k.conv.Fork(), mark: k.mark}
	if k.state != nil {
		f.state = k.state.Fork()
	}
	if f.truncate(n) != nil {
		f.release()
		return layerState{}, false
	}
	return f, true
}

// reaches reports whether it can go back to n tokens: to a token of the last chunk, or to the mark.
func (k layerState) reaches(n int) bool {
	return n >= k.conv.Len()/linattn.Chunk*linattn.Chunk || n == k.mark
}

func (k layerState) truncate(n int) error {
	if k.state == nil {
		return k.conv.Truncate(n)
	}
	return cmp.Or(k.conv.Truncate(n), k.state.Truncate(n))
}

// checkpoint sets the mark.
func (k *layerState) checkpoint() {
	k.conv.Checkpoint()
	if k.state != nil {
		k.state.Checkpoint()
	}
	k.mark = k.conv.Len()
}

func (k layerState) save(to io.Writer) (all int64, err error) {
	if all, err = k.conv.Save(to); err != nil || k.state == nil {
		return all, err
	}
	n, err := k.state.Save(to)
	return all + n, err
}

// load reads what save wrote. It returns the lengths of both parts.
func (k layerState) load(from io.Reader) (all int64, lens [2]int, err error) {
	all, err = k.conv.Load(from)
	if lens = [2]int{k.conv.Len(), k.conv.Len()}; err != nil || k.state == nil {
		return all, lens, err
	}
	n, err := k.state.Load(from)
	lens[1] = k.state.Len()
	return all + n, lens, err
}

func (k layerState) release() {
	if k.state != nil {
		_ = k.state.Close() // it is open, so Close cannot fail
	}
}
