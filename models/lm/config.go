package lm

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// config is the shape of a model, read from its files or implied by its type.
type config struct {
	Layers, Dim, Heads, KVHeads, HeadDim, FFN, Vocab int
	Further                                          int // layers after these, which are not loaded
	nextLayers                                       `json:"-"`
	Epsilon                                          float64
	Tied                                             bool  // the last matrix is the embedding
	Stop                                             []int // tokens that end an answer
	Activation                                       nn.Activation
	rotations
	QKVBias, OutBias, FFNBias bool // matrices that have a bias
	QKNorm                    bool // queries and keys are normed, head by head
	WideNorm                  bool // as one row
	NormsAfter                bool // the outputs of attention and of the network are normed
	OnlyAfter                 bool // and not their inputs
	LessOne                   bool // the file has the weights of norms less 1
	// matrices have a bias wherever the file has one
	AnyBias bool
	// pairs of channels that rotate together are neighbours in the file
	Interleaved bool
	// tokens that a token of each layer sees, itself included; 0 for all
	Windows   []int
	Unrotated []bool // layers without rotations; nil for none
	// longest texts of training, in tokens, by the file or its scaling; 0 if unknown
	Trained int

	EmbeddingScale float32 // 0 for none
	ResidualScale  float32 // of the outputs of attention and network, before they are added
	LogitDivisor   float32 // 0 for none, as the number before
	ScoreScale     float32 // 0: 1/√HeadDim
	Sinks          bool    // one for each head
	Experts        experts
	States         states
	Gated          bool // the output of attention is, by a part of the matrix of queries
	// of the clamped gate of gpt-oss; 0: Activation is used
	Limit, Alpha float32
	Wrapped      bool    // the file has the model in text_config, next to one for images
	ByLayer      byLayer `json:",omitzero"`
	ValueNorm    bool    `json:",omitzero"` // values are normed, head by head, without weights
	Ungated      bool    `json:",omitzero"` // networks have no gate
	Centered     bool    `json:",omitzero"` // norms subtract the mean and have biases (LayerNorm)
	Unbiased     bool    `json:",omitzero"` // files may lack these biases
	// s becomes cap·tanh(s/cap), of scores and of logits; 0 for none
	ScoreCap, LogitCap float32
}

// nextLayers says which layers that guess further tokens the files have. No answer depends on it.
type nextLayers struct {
	GuessLayers  int    // how many; -1 if the configuration does not say
	GuessKey     string // the file's name of that
	OwnEmbedding bool   // that differs from the model's by the configuration
	Guesses      int    // tokens that such a layer guesses at a time; 0: it is not loaded
}

// rotations describes how queries and keys are rotated by their positions.
type rotations struct {
	Theta      float64
	LocalTheta float64 // of layers with a window, without scaling; 0: as in all layers
	Rotated    int     // channels of a head that are rotated
	Scaling    scaling
	QueryScale float64 // see scaling; 0 for none
	Context    int     // most tokens of a sequence in this run
}

// turnsNeighbours reports whether neighbours rotate together here as in the file, because the
// channels of a head that are rotated are not all.
func (c *config) turnsNeighbours() bool { return c.Interleaved && c.Rotated < c.HeadDim }

// unrotate lets the last of each so many layers have no rotations; 0: all layers have them.
func (c *config) unrotate(step int) {
	if step == 0 {
		return
	}
	c.Unrotated = make([]bool, c.Layers)
	for i := range c.Unrotated {
		c.Unrotated[i] = (i+1)%step == 0
	}
}

// unrotateFull lets layers without a window have no rotations, always or if there are others.
func (c *config) unrotateFull(always bool) {
	if slices.Max(c.Windows) == 0 && !always {
		return
	}
	c.Unrotated = make([]bool, c.Layers)
	for i, window := range c.Windows {
		c.Unrotated[i] = window == 0
	}
}

// scaleLogits sets the number that multiplies logits.
func (c *config) scaleLogits(by float64) error {
	if c.LogitDivisor = float32(1 / by); !(c.LogitDivisor > 0 && c.LogitDivisor <= math.MaxFloat32) {
		return fmt.Errorf("logit_scale is %v, want a number above 0", by)
	}
	return nil
}

// multiplier is a number that a file has under a key; nil: 1, or the default of scores.
type multiplier struct {
	key string
	by  *float64
}

// multiply sets the multipliers of embeddings, scores and residual rows, and the divisor of logits.
func (c *config) multiply(all [4]multiplier) error {
	for i, to := range []*float32{&c.EmbeddingScale, &c.ScoreScale, &c.ResidualScale,
		&c.LogitDivisor} {
		m := all[i]
		if m.by == nil {
			continue
		}
		if *to = float32(*m.by); !(*to > 0 && *to <= math.MaxFloat32) {
			return fmt.Errorf("%s is %v, want a number above 0", m.key, *m.by)
		}
	}
	return nil
}

// experts describes a mixture of experts in place of a feed-forward network.
type experts struct {
	Count, Used, FFN int // 0 for no mixture
	Shared           int // width of a network that all tokens also use; 0 for none
	// the weights of a token's experts add up to 1
	Normalized bool
	Biased     bool    // router and experts have biases
	Sigmoid    bool    // weights are sigmoids of the router's outputs, not their softmax
	Choosing   bool    // a bias of each expert is added to choose some, not to their weights
	Scale      float32 // of the weights; 0 for none
	Least      float32 // added to the sum of sigmoids that divides them
	Dense      []bool  // layers without experts; nil for none
	// weights are the router's softmax over all, divided by their sum or Floor if that is larger, and
	// biases choose as for sigmoids; 0: not so
	Floor  float32 `json:",omitzero"`
	Beside bool    `json:",omitzero"` // layers have a network, too, and the sum of both
}

// of reports whether a layer has experts.
func (e *experts) of(layer int) bool {
	return e.Count > 0 && (e.Dense == nil || !e.Dense[layer])
}

// weighBySigmoids sets how sigmoids weigh experts, and that the first layers have none. key is the
// file's name of the scale.
func (c *config) weighBySigmoids(a *architecture, key string, by float64, first int) error {
	e := &c.Experts
	e.Sigmoid, e.Scale, e.Least = true, float32(by), float32(a.least)
	if !(by > 0 && by <= math.MaxFloat32) {
		return fmt.Errorf("%s is %v, want a number above 0", key, by)
	}
	e.Dense = make([]bool, c.Layers)
	for i := range min(first, c.Layers) {
		e.Dense[i] = true
	}
	if e.Count < 1 {
		return fmt.Errorf("the number of experts is %d, want 1 or more", e.Count)
	}
	return nil
}

// usualFloor is the usual least sum of the weights of ERNIE's experts.
const usualFloor = 1e-12

// weighBySoftmax replaces the sigmoids, and lets only the last of so many layers have experts, of
// those that have some now.
func (c *config) weighBySoftmax(floor float64, step int) {
	e := &c.Experts
	e.Sigmoid, e.Floor = false, float32(floor)
	for i := range e.Dense {
		e.Dense[i] = e.Dense[i] || (i+1)%step != 0
	}
}

// check refuses experts that do not fit. Its arguments are the file's names of the keys.
func (e *experts) check(count, used, width string) error {
	if e.Count == 0 {
		return nil
	}
	err := weights.Sizes([]string{count, used, width}, e.Count, e.Used, e.FFN)
	if err == nil && e.Used > e.Count {
		err = fmt.Errorf("%s is %d, want at most %s, %d", used, e.Used, count, e.Count)
	}
	return err
}
