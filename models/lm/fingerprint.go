package lm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"sync"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// contract is the version of attn's numeric contract.
const contract = 2

// fingerprint is computed once for a model.
type fingerprint struct {
	once sync.Once
	text string
	err  error
	path string // of the model's files; "" for a random model

	tensors string // their sum, if Options.Pack has it
}

// Fingerprint returns a SHA-256 sum in hexadecimal of everything that the model's tokens depend on:
// the version of the numeric contract, the configuration in use, tokenizer and chat template, each
// tensor's name, type, shape and bytes, and the options that change bits: Weights, Products, Keys
// and Values. Models of equal fingerprints give equal tokens for equal prompts and samplings. The
// first call reads the model's files whole, unless Options.Pack has a sum of their tensors.
func (m *Model) Fingerprint() (string, error) {
	f := &m.fingerprint
	f.once.Do(func() {
		sum := sha256.New()
		if f.err = m.describe(sum); f.err == nil {
			f.text = hex.EncodeToString(sum.Sum(nil))
		}
	})
	return f.text, f.err
}

// describe writes the data that a fingerprint is the sum of.
func (m *Model) describe(to hash.Hash) error {
	shape := m.net.config
	shape.Stop, shape.Context = nil, 0 // logits depend on them only by long
	long := shape.Scaling.Type == longRope && m.net.long()
	text, err := json.Marshal(shape)
	if err != nil {
		return err
	}
	o := &m.options
	values := o.Values
	if values == Default {
		values = o.Keys
	}
	fmt.Fprintf(to, "attn %d\nconfig %s\nlong %t\nends %v\n%s, keys %v, values %v\n", contract, text,
		long, m.ends, o.matrices(), o.Keys, values)
	if m.fingerprint.path == "" {
		fmt.Fprintf(to, "random %+v\n", m.sizes)
		return nil
	}
	return weights.Digest(to, m.fingerprint.path, m.fingerprint.tensors)
}
