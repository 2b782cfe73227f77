// Package gauge gives the commands of this module numbers of running models that the public
// packages do not report.
package gauge

import (
	"context"
	"errors"
)

// Engine is what a language model has computed since it was opened, and its current load.
type Engine struct {
	Steps    int   // of the model
	Prompts  int   // tokens of prompts computed
	Shared   int   // tokens of prompts shared with an earlier sequence
	Hits     int   // prompts that shared tokens
	Guessed  int   // right guesses
	Waiting  int   // answers waiting for a place or pages
	Running  int   // answers with a place
	Places   int   // most answers with a place
	Bytes    int   // of keys, values and states in use after the last step
	Capacity int64 // most bytes of them; 0: no bound
}

// OfModel returns the numbers of a *lm.Model, whose package sets it.
var OfModel func(model any) Engine

// ErrCut is the error of a call with Whole and a text that is too long.
var ErrCut = errors.New("it is too long for the model")

// Call has numbers of a call, which a package sets if the call's context has a Call. It may be read
// when the call has returned.
type Call struct {
	Whole  bool  // a text that is too long is ErrCut, and is not cut
	Places []int // numbers of texts in errors; nil: their indices
	Tokens int   // of texts that were read
	Shared int   // tokens of a prompt shared with an earlier sequence
}

type key struct{}

// With returns a context whose call sets the numbers of c.
func With(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns the Call of a context; without one, a Call that nobody reads.
func Of(ctx context.Context) *Call {
	if c, ok := ctx.Value(key{}).(*Call); ok {
		return c
	}
	return new(Call)
}
