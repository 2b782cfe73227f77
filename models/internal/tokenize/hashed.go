package tokenize

import (
	"hash/fnv"
	"iter"
)

// HashedTexts is a tokenizer for random encoders: a token is a hash of a word.
func HashedTexts(size, longest int) *Texts {
	t := &Tokenizer{pipeline: bertPipeline(newCleaning(), 0, 0, size), model: hashed(size),
		file: tokenizerJSON}
	t.pair = pairOf(0, 0, 0, false)
	return &Texts{t, longest}
}

// hashed is a model with some tokens without texts.
type hashed int

func (h hashed) word(e *encoded, w traced) error {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(w.text)) // cannot fail
	e.add(1+int(hash.Sum32()>>1)%(int(h)-1), w, 0, len(w.text))
	return nil
}

func (hashed) number(string) (id int, ok bool) { return 0, false }

func (hashed) unknown() (id int, ok bool) { return 0, false }

func (hashed) all() iter.Seq2[string, int] { return func(func(string, int) bool) {} }
