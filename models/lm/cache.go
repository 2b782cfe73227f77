package lm

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// cache keeps the keys and values of sequences: in pages of this process, or on a cluster. Results
// have the same bits.
type cache interface {
	newSequence() (sequence, error)
	// step appends rows of keys and values to a layer of the pieces' sequences, and computes attention
	// of rows of queries, which are the last tokens, over the sequences. Zero tensors of keys and
	// values: the sequences have them already.
	step(layer int, dst, q, k, v attn.Tensor, pieces []piece) error
	// states returns the convolutions and the states of the pieces' sequences, for a layer that keeps
	// states.
	states(layer int, pieces []piece) ([]*nn.Conv, []*linattn.State, error)
	// forks reports whether sequences can share tokens.
	forks() bool
	// inUse returns the bytes of all tokens' keys and values, in whole pages.
	inUse() int
	close()
}

// sequence is the tokens of a prompt and its answer.
type sequence interface {
	length() int
	// reach returns how many of the first n tokens a fork can have.
	reach(n int) int
	// fork returns a new sequence with the first n tokens, which are within reach.
	fork(n int) (sequence, error)
	// mark marks the current end for back: layers that keep states may be unable to go back further.
	mark()
	// back drops the tokens from n on, or all tokens after the mark if that is all that is possible.
	back(n int) error
	// slide drops the tokens that no later token sees.
	slide()
	release()
}

// options returns the options of a layer's attention, for pieces with these numbers of rows.
func (m *model) options(layer int, queries []int, integers bool) *attn.Options {
	return &attn.Options{Causal: attn.BottomRight, QueryLens: queries, Integers: integers,
		Window: attn.Window{Left: m.Windows[layer]}, Scale: m.ScoreScale, Softcap: m.ScoreCap,
		Sinks: m.layers[layer].sinks}
}

// queriesOf returns the number of rows of each piece, in memory.
func queriesOf(pieces []piece, memory []int) []int {
	memory = memory[:0]
	for _, p := range pieces {
		memory = append(memory, len(p.tokens))
	}
	return memory
}

// eachPiece calls f with the range of rows of each piece.
func eachPiece(pieces []piece, f func(i, from, to int)) {
	from := 0
	for i, p := range pieces {
		f(i, from, from+len(p.tokens))
		from += len(p.tokens)
	}
}
