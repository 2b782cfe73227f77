package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/internal/folder"
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

// setIntegers sets the types whose products are of integers: those of the cache to i8 if nothing
// else was said, and matrices to i8, or in a GGUF file to what the file has. Products by a GGUF
// file's matrices are of integers unless something was said that contradicts it.
func (o *options) setIntegers(f *flag.FlagSet) error {
	said := map[string]string{}
	f.Visit(func(x *flag.Flag) { said[x.Name] = x.Value.String() })
	_, chosen := said["integers"]
	_, cache := said["cache"]
	if !chosen && folder.IsGGUF(o.model) {
		o.integers = o.weights == asStored && (!cache || o.integersInCache())
	}
	if !o.integers {
		return nil
	}
	if !cache {
		o.kind, o.values = attn.I8, 0
	} else if !o.integersInCache() {
		return fmt.Errorf("-cache is %s with -integers, want i8, i4, or one of each", o.cacheTypes())
	}
	stored := folder.IsGGUF(o.model)
	if _, ok := said["weights"]; !ok && !stored {
		o.weights = attn.I8
	} else if o.weights != attn.I8 && !(stored && o.weights == asStored) {
		return fmt.Errorf("-weights is %s with -integers, want i8, for a GGUF file also file, or none",
			o.weightType())
	}
	return nil
}

// integersInCache says whether keys and values are of types that integers are multiplied by.
func (o *options) integersInCache() bool {
	return o.kind >= attn.I8 && (o.values == 0 || o.values >= attn.I8)
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
