// Package lm runs language models of published files on CPUs: it answers prompts and conversations,
// many at the same time, and keeps sequences that are continued later.
//
// [Open] reads a GGUF file or a folder as transformers writes it. [Model.Generate] yields the
// tokens of an answer to tokens, [Model.Complete] to a text, [Model.Chat] to a conversation. All
// calls of a model share its steps, from any number of goroutines; prompts that begin alike share
// what is computed of them. A [Session] is a sequence that stays: it grows, forks, goes back, and
// is saved and loaded.
//
// An answer has the same bits in any company and at any load, with any Workers, Sequences, Memory,
// Chunk, Draft, Guesses and Pack, and on any CPU. Tokens are drawn by a fixed order of operations,
// which docs/semantics.md defines: equal [Model.Fingerprint], prompts and [Sampling] give equal
// tokens, so that anybody can compute an answer again.
package lm
