package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// asStored is instead of a type of matrices: each as the model's files have it.
const asStored attn.Format = -1

// typeNames are the types by their numbers.
var typeNames = []string{attn.F32: "f32", attn.F16: "f16", attn.BF16: "bf16", attn.I8: "i8",
	attn.I4: "i4"}

// typeOf is the type of a name, of which there may be some.
func typeOf(name string, names []string) (attn.Format, error) {
	if i := slices.Index(names, name); i >= 0 {
		return attn.Format(i), nil
	}
	return 0, fmt.Errorf("want %s or %s", strings.Join(names[:len(names)-1], ", "),
		names[len(names)-1])
}

// setWeights takes the type of matrices.
func (o *options) setWeights(text string) (err error) {
	if o.weights = asStored; text != "file" {
		if o.weights, err = typeOf(text, typeNames[:attn.I4]); err != nil {
			err = fmt.Errorf("%w, or file", err)
		}
	}
	return err
}

// setCache takes the type of keys and values, or one of each.
func (o *options) setCache(text string) (err error) {
	keys, values, both := strings.Cut(text, ",")
	o.values = 0 // as keys
	if o.kind, err = typeOf(keys, typeNames); err == nil && both {
		o.values, err = typeOf(values, typeNames)
	}
	if err == nil && both && o.values == attn.F32 && o.kind != attn.F32 {
		err = fmt.Errorf("want values of another type than f32, or keys of f32, too")
	}
	return err
}

// setUsual sets what was not said: of a GGUF file the cache is f16, and products by its matrices
// are of integers if these stay as they are; of a folder matrices become i8 for products of
// integers.
func (o *options) setUsual(f *flag.FlagSet) error {
	said := map[string]bool{}
	f.Visit(func(x *flag.Flag) { said[x.Name] = true })
	switch {
	case said["guesses"] && o.draftPath == "":
		return fmt.Errorf("-guesses is %d without -draft, want both or none", o.guesses)
	case said["size"] && o.model != "":
		return fmt.Errorf("-size is %s, of a model of random weights, with -model %s, want one of both",
			o.size, o.model)
	}
	for _, of := range []string{"prefix", "creds", "nkey"} {
		if said[of] && o.url == "" {
			return fmt.Errorf("-%s is there without -cluster, want both or none", of)
		}
	}
	stored := weights.IsGGUF(o.model)
	if stored && !said["cache"] {
		o.kind = attn.F16
	}
	if stored && !said["integers"] {
		o.integers = o.weights == asStored
	}
	if o.integers && !stored && !said["weights"] {
		o.weights = attn.I8
	}
	if o.integers && o.weights != attn.I8 && !(stored && o.weights == asStored) {
		return fmt.Errorf("-weights is %s with -integers, want i8, for a GGUF file also file, or none",
			o.weightType())
	}
	return nil
}

// attendsInIntegers says whether attention multiplies integers, as matrices do: where keys and
// values are integers.
func (s *settings) attendsInIntegers() bool {
	return s.integers && s.kind >= attn.I8 && (s.values == 0 || s.values >= attn.I8)
}

func (o *options) weightType() string {
	if o.weights == asStored {
		return "file"
	}
	return typeNames[o.weights]
}

func (s *settings) cacheTypes() string {
	if s.values == 0 {
		return typeNames[s.kind]
	}
	return typeNames[s.kind] + "," + typeNames[s.values]
}

// matrices says of what kind they are.
func (o *options) matrices() string {
	return fmt.Sprintf("-weights %s -integers=%v", o.weightType(), o.integers)
}
