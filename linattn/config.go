package linattn

import (
	"math"
	"strconv"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/views"
)

// Chunk is the number of tokens in a chunk, which begins at a position that is a multiple of it.
// The tokens of a full chunk are added to the matrix in one pass.
const Chunk = 16

// Rule is how a token updates the state S.
type Rule int

const (
	// Linear adds k·vᵀ.
	Linear Rule = iota
	// Gated multiplies S by the decay, then adds k·vᵀ: gated linear attention, RetNet, Mamba-2.
	Gated
	// Delta adds β·k·(v − Sᵀ·k)ᵀ: DeltaNet.
	Delta
	// GatedDelta is Delta after the decay: Qwen3-Next, Kimi Linear.
	GatedDelta
)

func (r Rule) String() string {
	if !r.known() {
		return "Rule(" + strconv.Itoa(int(r)) + ")"
	}
	return [...]string{"Linear", "Gated", "Delta", "GatedDelta"}[r]
}

func (r Rule) known() bool { return r >= Linear && r <= GatedDelta }

// decays reports whether the rule uses decay, corrects whether it uses beta.
func (r Rule) decays() bool   { return r == Gated || r == GatedDelta }
func (r Rule) corrects() bool { return r == Delta || r == GatedDelta }

// Grouping assigns query or key heads to states where there are n of them, fewer than states.
type Grouping int

const (
	// Repeated assigns head h/(Heads/n) to state h, as torch's repeat_interleave does: Qwen3-Next.
	Repeated Grouping = iota
	// Interleaved assigns head h mod n to state h.
	Interleaved
)

func (g Grouping) String() string {
	if g < Repeated || g > Interleaved {
		return "Grouping(" + strconv.Itoa(int(g)) + ")"
	}
	return [...]string{"Repeated", "Interleaved"}[g]
}

// Config describes the states of a layer.
type Config struct {
	// Heads is the number of value heads. Each has a state of its own.
	Heads int
	// QueryHeads is a divisor of Heads, assigned by Grouping, or a multiple: then query head h reads
	// state h/(QueryHeads/Heads). 0 means Heads.
	QueryHeads int
	// KeyHeads is a divisor of Heads, assigned by Grouping. 0 means Heads.
	KeyHeads         int
	KeyDim, ValueDim int
	Rule             Rule
	// ChannelDecay means that a token has a decay for each key channel, else one for each head.
	ChannelDecay bool
	// ReadKeys means that k has rows of 2·KeyDim: a key that is written, then a key that is read,
	// which replaces it in r_i of the package's formulas. For Delta and GatedDelta. Gated DeltaNet-2
	// has k and b⊙k as keys, w⊙v as values and a beta of 1.
	ReadKeys bool
	Grouping Grouping
	// Scale multiplies outputs. 0 means 1/√KeyDim.
	Scale float32
}

// layout is a valid Config and the memory layout of a head's state.
type layout struct {
	Config
	panels                           int // panels of values
	decays                           int // decays of a token in a head: 0, 1 or KeyDim
	matrix                           int // floats of a head's matrix
	chunk                            int // floats of a head's chunk
	updates, factors, decay, weights int // offsets of its parts, keys being at 0
}

// layoutOf validates a Config, fills in defaults and returns its layout.
func layoutOf(c Config) (g layout, err error) {
	if c.QueryHeads == 0 {
		c.QueryHeads = c.Heads
	}
	if c.KeyHeads == 0 {
		c.KeyHeads = c.Heads
	}
	for _, n := range [...]struct {
		name  string
		value int
	}{{"Heads", c.Heads}, {"QueryHeads", c.QueryHeads}, {"KeyHeads", c.KeyHeads},
		{"KeyDim", c.KeyDim}, {"ValueDim", c.ValueDim}} {
		if n.value < 1 || n.value > views.MaxLength {
			return g, views.Fail(attn.ErrShape, "Config.%s is %d, want 1 to %d", n.name, n.value,
				views.MaxLength)
		}
	}
	switch {
	case c.Heads%c.QueryHeads != 0 && c.QueryHeads%c.Heads != 0:
		return g, views.Fail(attn.ErrShape, "Config.QueryHeads is %d, want a multiple or a divisor of "+
			"Heads, %d", c.QueryHeads, c.Heads)
	case c.Heads%c.KeyHeads != 0:
		return g, views.Fail(attn.ErrShape, "Config.KeyHeads is %d, want a divisor of Heads, %d",
			c.KeyHeads, c.Heads)
	case !c.Rule.known():
		return g, views.Fail(attn.ErrOption, "Config.Rule is %v, want Linear to GatedDelta", c.Rule)
	case c.Grouping < Repeated || c.Grouping > Interleaved:
		return g, views.Fail(attn.ErrOption, "Config.Grouping is %v, want Repeated or Interleaved",
			c.Grouping)
	case c.ChannelDecay && !c.Rule.decays():
		return g, views.Fail(attn.ErrOption, "Config.ChannelDecay is set and Rule is %v, want Gated or "+
			"GatedDelta", c.Rule)
	case c.ReadKeys && !c.Rule.corrects():
		return g, views.Fail(attn.ErrOption, "Config.ReadKeys is set and Rule is %v, want Delta or "+
			"GatedDelta", c.Rule)
	case c.ReadKeys && c.KeyDim > views.MaxLength/2:
		return g, views.Fail(attn.ErrShape, "Config.KeyDim is %d with ReadKeys, want 1 to %d", c.KeyDim,
			views.MaxLength/2)
	case !(math.Abs(float64(c.Scale)) <= math.MaxFloat32):
		return g, views.Fail(attn.ErrOption, "Config.Scale is %v, want a finite one", c.Scale)
	}
	if c.Scale == 0 {
		c.Scale = float32(1 / math.Sqrt(float64(c.KeyDim)))
	}
	return c.makeLayout()
}

// makeLayout is layoutOf for a valid Config without defaults.
func (c Config) makeLayout() (g layout, err error) {
	g.Config, g.panels = c, (c.ValueDim+kernel.Panel-1)/kernel.Panel
	switch {
	case c.ChannelDecay:
		g.decays = c.KeyDim
	case c.Rule.decays():
		g.decays = 1
	}
	// A head needs at most its matrix, 3·Chunk rows of KeyDim and Chunk rows of values.
	rows := max(c.KeyDim, Chunk)
	if _, ok := views.Product(c.Heads, rows, g.panels+4, 4*kernel.Panel); !ok {
		return g, views.Fail(attn.ErrShape, "Config has %d Heads of %d KeyDim and %d ValueDim, want less",
			c.Heads, c.KeyDim, c.ValueDim)
	}
	cols := g.panels * kernel.Panel
	g.matrix = c.KeyDim * cols
	g.updates = Chunk * c.KeyDim
	g.factors = g.updates + Chunk*cols
	g.decay = g.factors + Chunk*g.decays
	g.weights = g.decay + kernel.RoundUp(g.decays, kernel.Panel)
	g.chunk = g.weights + Chunk*g.decays
	return g, nil
}

// headOf returns the query or key head of state h, where there are n of them.
func (g *layout) headOf(h, n int) int {
	if g.Grouping == Interleaved {
		return h % n
	}
	return h / (g.Heads / n)
}

// keyRow returns the elements of a row of k.
func (g *layout) keyRow() int {
	if g.ReadKeys {
		return 2 * g.KeyDim
	}
	return g.KeyDim
}

// group returns the number of query heads that read one state.
func (g *layout) group() int { return max(1, g.QueryHeads/g.Heads) }

// queryHead returns the i-th query head that reads state h.
func (g *layout) queryHead(h, i int) int {
	if g.QueryHeads < g.Heads {
		return g.headOf(h, g.QueryHeads)
	}
	return h*g.group() + i
}

// outputs returns the number of output heads.
func (g *layout) outputs() int { return max(g.Heads, g.QueryHeads) }
