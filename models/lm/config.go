package lm

import (
	"fmt"

	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// config is the shape of a model, as its folder gives it or its type implies.
type config struct {
	Layers, Dim, Heads, KVHeads, HeadDim, FFN, Vocab int
	Further                                          int // layers after these, which are not read
	Epsilon                                          float64
	Tied                                             bool  // the last matrix is the embedding
	Stop                                             []int // tokens that end an answer
	Activation                                       nn.Activation
	rotations
	QKVBias, OutBias, FFNBias bool // of which matrices
	QKNorm                    bool // of queries and keys, head by head
	NormsAfter                bool // of what attention and the network return
	LessOne                   bool // the file has the weights of norms less 1
	// of those matrices for which the file has one
	AnyBias bool
	// pairs that rotations turn are neighbours in the file
	Interleaved bool
	// how many tokens a token of each layer sees, itself and those before it; 0 for all
	Windows []int
	// how many tokens texts had at most in training, as the file or its scaling says; 0 if unknown
	Trained int

	EmbeddingScale float32 // 0 for none
	ScoreScale     float32 // 0 for 1/√HeadDim
	Sinks          bool    // each head has one
	Experts        experts
	States         states
	Gated          bool // what attention returns, by a part of the matrix of queries
	// of the gate of gpt-oss; 0 for Activation
	Limit, Alpha float32
	Wrapped      bool // the file has the model in text_config, beside one of images
	// s becomes cap·tanh(s/cap), of scores and of logits; 0 for none
	ScoreCap, LogitCap float32
}

// rotations turn queries and keys by their positions.
type rotations struct {
	Theta      float64
	LocalTheta float64 // of layers with a window, which are not stretched; 0 for as all
	Rotated    int     // channels of a head
	Scaling    scaling
	Context    int // tokens of the longest text of the run
}

// experts are a mixture in the place of a feed-forward network.
type experts struct {
	Count, Used, FFN int // 0 for no mixture
	Shared           int // width of the network that all tokens use beside it; 0 for none
	// the shares of those that a token uses add up to 1
	Normalized bool
	Biased     bool   // router and experts have biases
	Dense      []bool // layers without; nil for none
}

// of says whether a layer has a mixture.
func (e *experts) of(layer int) bool {
	return e.Count > 0 && (e.Dense == nil || !e.Dense[layer])
}

// check takes the names of keys in a file.
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
