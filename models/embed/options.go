package embed

import (
	"fmt"
	"runtime"

	"github.com/seed-1415985d/attn"
)

// Options say how a model is opened. The zero value is what its files say, on all cores. An option
// that the model has no use for is an error, as Pooling is for one that only scores.
type Options struct {
	// Workers is the number of threads, at most attn.MaxWorkers; 0 is GOMAXPROCS.
	Workers int
	// Integers multiplies in 8-bit integers: about twice as fast, with other bits.
	Integers bool
	// Prompt is the name of the prompt before texts, one of Prompts; "" is the one that the files
	// name, or none.
	Prompt string
	// Pooling makes a vector of those of a text's tokens: cls, lasttoken, max, mean,
	// mean_sqrt_len_tokens or weightedmean, or several of them side by side. nil is what the files
	// say, or the mean.
	Pooling []string
	// Dimensions cuts vectors off, as models allow that were trained with Matryoshka losses; 0 is
	// what the files say, or all.
	Dimensions int
	// Normalize gives vectors length 1 after all else, so also after they were cut off.
	Normalize bool
	// MaxTokens are at most those of a text, with what the model puts around it; the rest is left
	// out. 0 is what the files say, or all that the model takes; more is an error.
	MaxTokens int
	// BatchTokens are computed together, unless a text has more; 0 is 512. Vectors do not depend on
	// it.
	BatchTokens int
	// Instruction is what Qwen3-Reranker is told to look for; "" is what it was trained with.
	Instruction string
	// Progress, unless it is nil, is called after each batch with the number of texts that are done,
	// and of all texts of the call, by the goroutine of the call.
	Progress func(done, of int)
	// Cut, unless it is nil, is called for each text of which tokens are left out, by the goroutine
	// of the call: the text's place, its tokens that stay, and those that do not.
	Cut func(text, tokens, left int)
}

// usualBatch is enough for products to be fast, and few enough for caches.
const usualBatch = 512

func (o *Options) check() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"Workers", o.Workers}, {"Dimensions", o.Dimensions}, {"MaxTokens", o.MaxTokens},
		{"BatchTokens", o.BatchTokens}} {
		if n.value < 0 {
			return fmt.Errorf("embed: Options.%s is %d, want 0 or more", n.name, n.value)
		}
	}
	if o.Workers > attn.MaxWorkers {
		return fmt.Errorf("embed: Options.Workers is %d, want 0 to %d", o.Workers, attn.MaxWorkers)
	}
	if o.Workers == 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), attn.MaxWorkers)
	}
	if o.BatchTokens == 0 {
		o.BatchTokens = usualBatch
	}
	return nil
}
