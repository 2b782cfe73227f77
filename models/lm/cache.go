package lm

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// cache keeps the keys and values of sequences: in pages of this process, or on a cluster. Where
// they are changes no bit.
type cache interface {
	newSequence() (sequence, error)
	// step adds rows of keys and values to a layer of the pieces' sequences, and lets rows of queries
	// see these, of which they are the last tokens.
	step(layer int, dst, q, k, v attn.Tensor, pieces []piece) error
	// states are those of a layer that keeps some, of the pieces' sequences.
	states(layer int, pieces []piece) ([]*nn.Conv, []*linattn.State, error)
	// forks reports whether sequences can share tokens.
	forks() bool
	// inUse is the bytes of all tokens' keys and values, in whole pages.
	inUse() int
	close()
}

// sequence is the tokens of a prompt and its answer.
type sequence interface {
	length() int
	// reach returns how many of the first n tokens a fork can have.
	reach(n int) int
	// fork begins another one with the first n tokens, which are within reach.
	fork(n int) (sequence, error)
	// mark notes a place to which back can go: others may be too far for layers that keep states.
	mark()
	// back forgets the tokens from n on, or those from the mark on if that is all that is possible.
	back(n int) error
	// slide drops the tokens that no later token sees.
	slide()
	release()
}

// options are those of a layer's attention, for pieces with some rows each.
func (m *model) options(layer int, queries []int, integers bool) *attn.Options {
	return &attn.Options{Causal: attn.BottomRight, QueryLens: queries, Integers: integers,
		Window: attn.Window{Left: m.Windows[layer]}, Scale: m.ScoreScale, Softcap: m.ScoreCap,
		Sinks: m.layers[layer].sinks}
}

// queriesOf is how many rows each piece has, in the memory of other numbers.
func queriesOf(pieces []piece, memory []int) []int {
	memory = memory[:0]
	for _, p := range pieces {
		memory = append(memory, len(p.tokens))
	}
	return memory
}

// eachPiece calls f with the rows of each piece: its first, and the one after its last.
func eachPiece(pieces []piece, f func(i, from, to int)) {
	from := 0
	for i, p := range pieces {
		f(i, from, from+len(p.tokens))
		from += len(p.tokens)
	}
}
