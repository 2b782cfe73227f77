package lm

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

// asStored stands for the format that the model's files have.
const asStored attn.Format = -1

// options open a model without an engine.
type options struct {
	model, pack string
	weights     attn.Format
	bfloat16    bool
	settings
}

// open returns the weights of a model and its tokenizer.
func (o *options) open() (*model, *tokenizer.Tokenizer, error) {
	given := Options{Products: Floats, Context: o.context, Pack: o.pack, Weights: Default,
		Guesses: o.guesses}
	for f := F32; f <= I8; f++ {
		if f.of() == o.weights {
			given.Weights = f
		}
	}
	if o.integers {
		given.Products = Integers
	}
	if o.bfloat16 {
		given.Products = BFloat16
	}
	m, err := readModel(o.model, given)
	if err != nil {
		return nil, nil, err
	}
	m.net.Stop = nil
	for _, token := range m.ends {
		m.net.Stop = append(m.net.Stop, int(token))
	}
	return m.net, m.tokenizer, nil
}

// call is an answer whose tokens a function of a test chooses.
type call struct {
	prompt []int
	most   int
	choose func(logits []float32) int

	tokens []int // the prompt and the chosen tokens
	done   bool
}

// tester runs calls in an engine.
type tester struct {
	*engine
	calls   []*call
	answers map[int][]int // of draftAnswers, by the lengths of their prompts
}

func newTester(m *model, s settings) (*tester, error) {
	e, err := newEngine(m, s)
	return &tester{engine: e}, err
}

// queue adds a call for answer.
func (e *tester) queue(c *call) { e.calls = append(e.calls, c) }

// answer runs all queued calls at the same time.
func (e *tester) answer() (err error) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	for _, c := range e.calls {
		j := newJob(wide(c.prompt), len(c.prompt)+c.most)
		if err := e.submit(j); err != nil {
			return err
		}
		wait.Go(func() {
			if failed := e.one(c, j); failed != nil {
				mu.Lock()
				err = failed
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	e.calls = nil
	return err
}

func (e *tester) one(c *call, j *job) error {
	defer e.endJob(j)
	c.tokens = append(c.tokens, c.prompt...)
	for {
		if err := e.await(context.Background(), j); err != nil {
			return err
		}
		for i, valid := 0, j.valid; ; i++ {
			token := c.choose(j.logits[i*e.Vocab:][:e.Vocab])
			right := i < len(j.guesses) && int(j.guesses[i]) == token
			if right {
				valid++
			}
			c.tokens = append(c.tokens, token)
			c.done = len(c.tokens) == len(c.prompt)+c.most || e.ends(token)
			e.chose(j, int32(token), valid, !right && !c.done)
			if c.done {
				return nil
			}
			if !right {
				break
			}
		}
	}
}

// ends reports whether a token ends answers.
func (e *tester) ends(token int) bool {
	for _, stop := range e.Stop {
		if token == stop {
			return true
		}
	}
	return false
}

func wide(tokens []int) []int32 {
	x := make([]int32, len(tokens))
	for i, token := range tokens {
		x[i] = int32(token)
	}
	return x
}

func greedy(logits []float32) int { return int(argMax(logits)) }

// readFile returns the text of a file.
func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
