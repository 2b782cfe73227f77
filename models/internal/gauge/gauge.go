// Package gauge has numbers of running models for commands of this module, which the public
// packages do not report.
package gauge

import (
	"context"
	"errors"
)

// Engine is what a language model computed since it was opened, and what it has now.
type Engine struct {
	Steps    int   // in which the model computed
	Prompts  int   // tokens of prompts that were computed
	Shared   int   // tokens of prompts that an earlier sequence had
	Hits     int   // prompts of which an earlier sequence had a part
	Guessed  int   // guesses that were right
	Waiting  int   // answers that wait for a place or pages
	Running  int   // answers that have a place
	Places   int   // most of them
	Bytes    int   // of keys, values and states in use after the last step
	Capacity int64 // most bytes of them; 0: no bound
}

// OfModel returns the numbers of a *lm.Model, whose package sets it.
var OfModel func(model any) Engine

// ErrCut is of a call that reads texts whole.
var ErrCut = errors.New("it is too long for the model")

// Call is what a package notes about a call, if the call's context has one. It may be read when the
// call has returned.
type Call struct {
	Whole  bool // a text that would be cut is ErrCut
	Tokens int  // of texts that were read
	Shared int  // tokens of a prompt that an earlier sequence had
}

type key struct{}

// With returns a context whose call notes its numbers.
func With(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns what notes the numbers of a call; what nobody reads if nobody asked.
func Of(ctx context.Context) *Call {
	if c, ok := ctx.Value(key{}).(*Call); ok {
		return c
	}
	return new(Call)
}
