package linattn

import (
	"math"
	"strconv"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/views"
)

// Chunk is how many tokens lie in a chunk: those of positions from a multiple of it on. The state
// takes the tokens of a chunk together.
const Chunk = 16

// Rule is how a state takes tokens.
type Rule int

const (
	// Linear adds k·vᵀ.
	Linear Rule = iota
	// Gated lets the state decay before: gated linear attention, RetNet, Mamba-2.
	Gated
	// Delta adds β·k·(v − what the state has for k)ᵀ: DeltaNet.
	Delta
	// GatedDelta is Delta after a decay: Qwen3-Next, Kimi Linear.
	GatedDelta
)

func (r Rule) String() string {
	if !r.known() {
		return "Rule(" + strconv.Itoa(int(r)) + ")"
	}
	return [...]string{"Linear", "Gated", "Delta", "GatedDelta"}[r]
}

func (r Rule) known() bool { return r >= Linear && r <= GatedDelta }

// decays reports whether the rule takes decay, and corrects whether it takes beta.
func (r Rule) decays() bool   { return r == Gated || r == GatedDelta }
func (r Rule) corrects() bool { return r == Delta || r == GatedDelta }

// Grouping is which head of queries or keys a state takes, where there are n and fewer than states.
type Grouping int

const (
	// Repeated: state h takes head h/(Heads/n), as if each head were repeated: torch's
	// repeat_interleave, as Qwen3-Next has it.
	Repeated Grouping = iota
	// Interleaved: state h takes head h mod n.
	Interleaved
)

func (g Grouping) String() string {
	if g < Repeated || g > Interleaved {
		return "Grouping(" + strconv.Itoa(int(g)) + ")"
	}
	return [...]string{"Repeated", "Interleaved"}[g]
}

// Config is what a layer's states have in common.
type Config struct {
	// Heads are those of values, each of which has a state.
	Heads int
	// QueryHeads is a divisor of Heads, see Grouping, or a multiple, of which head h reads the state
	// h/(QueryHeads/Heads). 0 stands for Heads.
	QueryHeads int
	// KeyHeads is a divisor of Heads. 0 stands for Heads.
	KeyHeads         int
	KeyDim, ValueDim int
	Rule             Rule
	// ChannelDecay: a token has a decay for each channel of keys, else one for each head.
	ChannelDecay bool
	Grouping     Grouping
	// Scale multiplies outputs. 0 stands for 1/√KeyDim.
	Scale float32
}

// layout is a checked Config, and how a head's state lies in memory.
type layout struct {
	Config
	panels                           int // of values
	decays                           int // of a token and head: 0, 1 or KeyDim
	matrix                           int // floats of a head's matrix
	chunk                            int // floats of a head's chunk, whose parts begin at:
	updates, factors, decay, weights int
}

// layoutOf checks a Config.
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
	case !(math.Abs(float64(c.Scale)) <= math.MaxFloat32):
		return g, views.Fail(attn.ErrOption, "Config.Scale is %v, want a finite one", c.Scale)
	}
	if c.Scale == 0 {
		c.Scale = float32(1 / math.Sqrt(float64(c.KeyDim)))
	}
	return c.lay()
}

// lay is layoutOf a valid Config.
func (c Config) lay() (g layout, err error) {
	g.Config, g.panels = c, (c.ValueDim+kernel.Panel-1)/kernel.Panel
	switch {
	case c.ChannelDecay:
		g.decays = c.KeyDim
	case c.Rule.decays():
		g.decays = 1
	}
	// The largest part of a head is its matrix, or 3·Chunk rows beside that and as many of values.
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

// headOf is the head of queries or keys, of n, that state h takes.
func (g *layout) headOf(h, n int) int {
	if g.Grouping == Interleaved {
		return h % n
	}
	return h / (g.Heads / n)
}

// group is how many heads of queries read a state.
func (g *layout) group() int { return max(1, g.QueryHeads/g.Heads) }

// queryHead is the head of queries that is number i of those that read state h.
func (g *layout) queryHead(h, i int) int {
	if g.QueryHeads < g.Heads {
		return g.headOf(h, g.QueryHeads)
	}
	return h*g.group() + i
}

// outputs is how many heads outputs have.
func (g *layout) outputs() int { return max(g.Heads, g.QueryHeads) }
