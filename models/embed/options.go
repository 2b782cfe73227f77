package embed

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Options configure a model. With the zero value it follows its files and uses all cores. An option
// without effect on the model is an error, such as Pooling for a model that only scores.
type Options struct {
	// Workers is the number of threads, at most attn.MaxWorkers; 0 means GOMAXPROCS.
	Workers int
	// Integers multiplies in 8-bit integers: about twice as fast, with other bits.
	Integers bool
	// BFloat16 multiplies by matrices in bfloat16: several times as fast on CPUs with AMX, with other
	// bits.
	BFloat16 bool
	// Prompt is the name of the prompt before texts, one of Prompts; "" means the files' default, or
	// none.
	Prompt string
	// Pooling reduces the rows of a text's tokens to a vector: cls, lasttoken, max, mean,
	// mean_sqrt_len_tokens or weightedmean, or several of them concatenated. nil means the files'
	// pooling, by default mean.
	Pooling []string
	// Dimensions truncates vectors, for models trained with Matryoshka losses; 0 means the files'
	// number, by default all.
	Dimensions int
	// Normalize scales vectors to norm 1 as the last step, after truncation.
	Normalize bool
	// MaxTokens is the maximum of tokens of a text, special tokens included; longer texts are
	// truncated. 0 means the files' maximum, by default the model's; more is an error.
	MaxTokens int
	// BatchTokens is the maximum of tokens of a batch with several texts; 0 means 512. Vectors do not
	// depend on it.
	BatchTokens int
	// Instruction is the task for Qwen3-Reranker; "" means the one of its training.
	Instruction string
	// Progress, unless nil, is called after each batch on the goroutine of the call, with the number
	// of finished texts or images and of all.
	Progress func(done, of int)
	// Cut, unless nil, is called for each truncated text on the goroutine of the call, with the index
	// of the text, the number of its tokens that are kept, and the number left out.
	Cut func(text, tokens, left int)
}

// usualBatch is large enough for fast products and small enough for caches.
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
	if o.BFloat16 && o.Integers {
		return errors.New("embed: Options.BFloat16 is true with Integers, want one of them")
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

// way is how matrices multiply.
func (o *Options) way() weights.Way {
	return weights.Way{Integers: o.Integers, BFloat16: o.BFloat16}
}
