// Package lm runs language models from published files on CPUs: it answers prompts and
// conversations, many at the same time, and keeps sequences that can be continued later.
//
// [Open] reads a GGUF file or a folder in the layout of transformers. [Model.Generate] yields the
// tokens of an answer to tokens, [Model.Complete] to a text, [Model.Chat] to a conversation. Calls
// from any number of goroutines share the steps of a model, and prompts that begin alike share the
// computation of their common prefix. A [Session] is a sequence that stays: it grows, forks, goes
// back, and is saved and loaded.
//
// An answer has the same bits whatever else the model answers at the same time, with any Workers,
// Sequences, Memory, Chunk, Draft, Guesses and Pack, and on any CPU. Tokens are drawn by a fixed
// order of operations, which docs/semantics.md defines: equal [Model.Fingerprint], prompts and
// [Sampling] give equal tokens, so that anybody can compute an answer again.
package lm
