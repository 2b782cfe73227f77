package nn

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// ConvConfig is a depthwise causal convolution, as Mamba and linear attention use before their
// states: each output depends on the last Width inputs of the same channel.
type ConvConfig struct {
	Channels, Width int       // Width is up to 4096
	Weight          []float32 // [Channels][Width], the oldest tap first; kept by reference
	Bias            []float32 // [Channels], nil for none; kept by reference
	Activation      Activation
}

// Conv is the convolution of one sequence and its last inputs. Only one call at a time may use it.
type Conv struct {
	config ConvConfig
	inputs convInputs
	kept   *convInputs // the checkpoint, nil for none
	first  int         // in a call: position of its first row in the arguments
	rows   int         // in a call: number of its rows
}

// convInputs is a ring of the last inputs: the input of position i is row i mod rows.
type convInputs struct {
	length int
	data   []float32 // [rows][Channels]
}

const (
	// convChunk is the length of a chunk, within which Truncate goes back, as in linear attention.
	convChunk = 16

	// convTaps is how many weights a unit has on its stack.
	convTaps = 4096
)

// NewConv returns the convolution of an empty sequence, preceded by inputs of 0.
func NewConv(c ConvConfig) (_ *Conv, err error) {
	defer views.NameFunction("nn.NewConv", &err)
	if c.Channels < 1 || c.Channels > views.MaxLength || c.Width < 1 || c.Width > convTaps {
		return nil, views.Fail(attn.ErrShape, "ConvConfig has %d Channels and Width %d, want 1 to "+
			"%d and 1 to %d", c.Channels, c.Width, views.MaxLength, convTaps)
	}
	n, ok := views.Product(c.Channels, c.Width+convChunk)
	if !ok {
		return nil, views.Fail(attn.ErrShape, "ConvConfig has %d Channels and Width %d, want less",
			c.Channels, c.Width)
	}
	if want := c.Channels * c.Width; len(c.Weight) != want {
		return nil, views.Fail(attn.ErrLength, "len(ConvConfig.Weight) is %d, want Channels·Width, %d",
			len(c.Weight), want)
	}
	if c.Bias != nil && len(c.Bias) != c.Channels {
		return nil, views.Fail(attn.ErrLength, "len(ConvConfig.Bias) is %d, want Channels, %d",
			len(c.Bias), c.Channels)
	}
	if err := checkActivation("ConvConfig.Activation", c.Activation); err != nil {
		return nil, err
	}
	return &Conv{config: c, inputs: convInputs{data: make([]float32, n-2*c.Channels)}}, nil
}

// row returns the row of a position, which may be negative for inputs before the first.
func (s *convInputs) row(position, channels int) []float32 {
	rows := len(s.data) / channels
	at := (position%rows + rows) % rows * channels
	return s.data[at : at+channels : at+channels]
}

// Len returns the number of inputs in the sequence.
func (c *Conv) Len() int { return c.inputs.length }

// Append appends n inputs and writes their outputs: dst and x are [1, 1, n, Channels], and
//
//	dst_t = a chain of FMAs over taps from the oldest to t, from the bias (nil: +0), then Activation
//
// Any division of a sequence into calls gives the same bits. dst may be x.
func (c *Conv) Append(p *attn.Pool, dst, x attn.Tensor) (err error) {
	defer views.NameFunction("nn.Conv.Append", &err)
	convs, lens := [1]*Conv{c}, [1]int{x.L}
	return appendConvs(p, dst, x, convs[:], lens[:])
}

// AppendConvs is [Conv.Append] for several sequences packed end to end: x and dst are [1, 1, Σ
// lens, Channels]; nil lens means one row each. A convolution that is nil, listed twice, or of
// other Channels, Width or Activation than the first is [attn.ErrOption]; lens of another length or
// sum are [attn.ErrLength], a dst that overlaps weights is [attn.ErrOverlap].
func AppendConvs(p *attn.Pool, dst, x attn.Tensor, convs []*Conv, lens []int) (err error) {
	defer views.NameFunction("nn.AppendConvs", &err)
	return appendConvs(p, dst, x, convs, lens)
}

func appendConvs(p *attn.Pool, dst, x attn.Tensor, convs []*Conv, lens []int) error {
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x)}
	if err := checkConvs(convs, lens, x.L); err != nil {
		return err
	}
	if err := checkViews(all[:], 1); err != nil {
		return err
	}
	for i, c := range convs {
		if err := c.checkApart(&all[0], i, len(convs)); err != nil {
			return err
		}
	}
	j := jobs.Get().(*job)
	j.operation = convolve
	copy(j.all[:], all[:])
	j.convs = append(j.convs[:0], convs...)
	if len(convs) > 0 {
		g := &convs[0].config
		if x.B != 1 || x.H != 1 || x.D != g.Channels {
			j.put()
			return views.Fail(attn.ErrShape, "x is [%d %d … %d], want [1 1 … %d]", x.B, x.H, x.D, g.Channels)
		}
		at := 0
		for i, c := range convs {
			c.first, c.rows = at, 1
			if lens != nil {
				c.rows = lens[i]
			}
			at += c.rows
		}
		j.pieces = (g.Channels + g.block() - 1) / g.block()
		j.units = len(convs) * j.pieces
		j.unitsOfPart = max(1, partElements/max(1, x.L/len(convs)*convTaps))
	}
	err := j.runUnits(p)
	if err == nil {
		for _, c := range convs {
			c.inputs.length += c.rows
		}
	}
	j.put()
	return err
}

// checkConvs validates the convolutions and the number of rows of each.
func checkConvs(convs []*Conv, lens []int, rows int) error {
	if err := views.CheckRows(lens, len(convs), "convolution", "x.L", rows); err != nil {
		return err
	}
	if err := views.CheckOnce("convs", "convolution", convs); err != nil {
		return err
	}
	for i, c := range convs {
		if a, b := &c.config, &convs[0].config; a.Channels != b.Channels || a.Width != b.Width ||
			a.Activation != b.Activation {
			return views.Fail(attn.ErrOption, "convs[%d] has %d channels, width %d and %v, want %d, %d "+
				"and %v as convs[0]", i, a.Channels, a.Width, a.Activation, b.Channels, b.Width, b.Activation)
		}
	}
	return nil
}

// checkApart makes sure that an output does not overlap the weights of the convolution, which is
// number i of the call.
func (c *Conv) checkApart(out *argument, i, of int) error {
	if out.Empty() {
		return nil
	}
	a := out.Memory()
	for _, l := range [...]floatList{{"Weight", c.config.Weight}, {"Bias", c.config.Bias}} {
		switch {
		case !l.overlaps(&a):
		case of == 1:
			return views.Fail(attn.ErrOverlap, "%s overlaps ConvConfig.%s, want separate memory", out.Name,
				l.name)
		default:
			return views.Fail(attn.ErrOverlap, "%s overlaps ConvConfig.%s of convs[%d], want separate "+
				"memory", out.Name, l.name, i)
		}
	}
	return nil
}

// block returns the number of channels of a unit.
func (g *ConvConfig) block() int { return max(1, min(convTaps/g.Width, 1024)) }

// convolve computes all rows of one unit: a block of channels of one sequence. It begins with the
// last row, so that outputs may overwrite inputs.
func (j *job) convolve(c *Conv, piece int) {
	g := &c.config
	from := piece * g.block()
	n := min(g.block(), g.Channels-from)
	var taps, before [convTaps]float32
	var sums [1024]float32
	for i := range n {
		for k, w := range g.Weight[(from+i)*g.Width:][:g.Width] {
			taps[k*n+i] = w
		}
	}
	for k := range g.Width - 1 { // inputs before this call
		copy(before[k*n:][:n], c.inputs.row(c.inputs.length-g.Width+1+k, g.Channels)[from:])
	}
	x, dst := &j.all[1], &j.all[0]
	kept := min(c.rows, len(c.inputs.data)/g.Channels)
	for t := c.rows - kept; t < c.rows; t++ {
		copy(c.inputs.row(c.inputs.length+t, g.Channels)[from:from+n], x.Row(0, 0, c.first+t)[from:])
	}
	for t := c.rows - 1; t >= 0; t-- {
		sum := sums[:n]
		clear(sum)
		if g.Bias != nil {
			copy(sum, g.Bias[from:])
		}
		for k := range g.Width {
			if at := t - g.Width + 1 + k; at >= 0 {
				elements.MultiplyAdd(isa, sum, taps[k*n:][:n], x.Row(0, 0, c.first+at)[from:from+n])
			} else {
				elements.MultiplyAdd(isa, sum, taps[k*n:][:n], before[(t+k)*n:][:n])
			}
		}
		activateRow(dst.Row(0, 0, c.first+t)[from:from+n], sum, g.Activation, elements.Ahead{})
		stop.Point()
	}
}

// Start sets the inputs before an empty sequence, [1, 1, Width−1, Channels], oldest first, and
// drops the checkpoint. A Conv with inputs is [attn.ErrLength].
func (c *Conv) Start(x attn.Tensor) (err error) {
	defer views.NameFunction("nn.Conv.Start", &err)
	if c.inputs.length != 0 {
		return views.Fail(attn.ErrLength, "the convolution has %d inputs, want an empty one",
			c.inputs.length)
	}
	err = c.eachInput(&x, false, func(position int, row []float32) {
		stop.Copy(c.inputs.row(position, c.config.Channels), row)
	})
	if err == nil {
		c.kept = nil // it is of the earlier contents
	}
	return err
}

// Read writes the last Width−1 inputs to x, [1, 1, Width−1, Channels], oldest first.
func (c *Conv) Read(x attn.Tensor) (err error) {
	defer views.NameFunction("nn.Conv.Read", &err)
	return c.eachInput(&x, true, func(position int, row []float32) {
		stop.Copy(row, c.inputs.row(position, c.config.Channels))
	})
}

// eachInput visits the positions of the last Width−1 inputs and the rows of x.
func (c *Conv) eachInput(x *attn.Tensor, writes bool,
	visit func(position int, row []float32)) error {
	a := argumentOf("x", x)
	if err := a.Check("x"); err != nil {
		return err
	}
	rows := c.config.Width - 1
	if a.B != 1 || a.H != 1 || a.L != rows || a.D != c.config.Channels {
		return views.Fail(attn.ErrShape, "x is [%d %d %d %d], want [1 1 %d %d]", a.B, a.H, a.L, a.D, rows,
			c.config.Channels)
	}
	if writes {
		if err := a.CheckDistinct("x"); err != nil {
			return err
		}
		if err := c.checkApart(&a, 0, 1); err != nil {
			return err
		}
	}
	for i := range rows {
		visit(c.inputs.length-rows+i, a.Row(0, 0, i))
	}
	return nil
}

// Truncate removes the inputs from position n on. n must be between the largest multiple of 16 up
// to Len, and Len, or be exactly the checkpoint's position, else it is [attn.ErrLength]. A
// checkpoint beyond n is dropped.
func (c *Conv) Truncate(n int) (err error) {
	defer views.NameFunction("nn.Conv.Truncate", &err)
	length := c.inputs.length
	switch {
	case n >= length/convChunk*convChunk && n <= length:
		c.inputs.length = n
	case c.kept != nil && n == c.kept.length:
		c.inputs.length = n
		stop.Copy(c.inputs.data, c.kept.data)
	default:
		at := "and there is no checkpoint"
		if c.kept != nil {
			return views.Fail(attn.ErrLength, "n is %d, want %d to %d, or %d, the checkpoint", n,
				length/convChunk*convChunk, length, c.kept.length)
		}
		return views.Fail(attn.ErrLength, "n is %d, want %d to %d %s", n, length/convChunk*convChunk,
			length, at)
	}
	if c.kept != nil && c.kept.length > n {
		c.kept = nil
	}
	return nil
}

// Checkpoint saves the current inputs for [Conv.Truncate] and replaces an earlier checkpoint.
func (c *Conv) Checkpoint() {
	if c.kept == nil {
		c.kept = &convInputs{data: make([]float32, len(c.inputs.data))}
	}
	c.kept.length = c.inputs.length
	stop.Copy(c.kept.data, c.inputs.data)
}

// Fork returns an independent copy of the sequence and its checkpoint. Weights are shared.
func (c *Conv) Fork() *Conv {
	f := &Conv{config: c.config, inputs: *c.inputs.clone()}
	if c.kept != nil {
		f.kept = c.kept.clone()
	}
	return f
}

func (s *convInputs) clone() *convInputs {
	d := &convInputs{length: s.length, data: make([]float32, len(s.data))}
	stop.Copy(d.data, s.data)
	return d
}

// Reset makes the sequence empty and drops the checkpoint.
func (c *Conv) Reset() {
	c.inputs.length, c.kept = 0, nil
	stop.Clear(c.inputs.data)
}
