package embed

import (
	"errors"
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// answers is the head of Qwen3-Reranker: the probability of yes against no after a question.
type answers struct {
	rows          []float32 // output weights of yes, then of no
	before, after []int32   // tokens around the question
	instruction   string
}

// Prompts of Qwen3-Reranker's training.
const (
	rerankBefore = "<|im_start|>system\nJudge whether the Document meets the requirements based on " +
		"the Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\"." +
		"<|im_end|>\n<|im_start|>user\n"
	rerankAfter       = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
	rerankInstruction = "Given a web search query, retrieve relevant passages that answer the query"
)

// answersOnly is a tensor of GGUF files: the rows of yes and no, which converters keep of the
// output.
const answersOnly = "cls.output.weight"

// question returns the text of a question.
func question(instruction, query, text string) string {
	return "<Instruct>: " + instruction + "\n<Query>: " + query + "\n<Document>: " + text
}

// loadDecoderHead loads the head of a decoder, unless the files have a pooling for vectors.
func (m *Model) loadDecoderHead(b *builder) {
	if m.listed {
		return
	}
	if m.options.Pooling != nil {
		m.noVector = nil
	} else if m.noVector == nil {
		m.noVector = errors.New("it has no modules.json that says how vectors are made, want one, or " +
			"Options.Pooling; without both the model is for Rerank")
	}
	m.head = m.loadAnswers(b)
}

// loadAnswers returns the head of a decoder whose vocabulary has yes and no.
func (m *Model) loadAnswers(b *builder) *head {
	a := &answers{instruction: m.options.Instruction}
	if a.instruction == "" {
		a.instruction = rerankInstruction
	}
	var err error
	tokens := func(text string, read func(string) ([]int32, error)) []int32 {
		made, wrong := read(text)
		if err == nil {
			err = wrong
		}
		return made
	}
	a.before = tokens(rerankBefore, m.texts.EncodeControl)
	a.after = tokens(rerankAfter, m.texts.EncodeControl)
	for _, answer := range []string{"yes", "no"} {
		ids := tokens(answer, m.texts.Plain)
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("%q is tokens %v, want one", answer, ids)
		}
		if err != nil {
			break
		}
		row := make([]float32, m.hidden)
		if table := m.outputs(b); table != nil && !b.Has(answersOnly) {
			table.Row(row, int(ids[0]))
		}
		a.rows = append(a.rows, row...)
	}
	if b.Has(answersOnly) {
		a.rows = b.Tensor(answersOnly, 2, m.hidden) // of yes and of no
	}
	if fixed := len(a.before) + len(a.after); err == nil && fixed >= m.texts.Longest() {
		err = fmt.Errorf("texts have at most %d tokens, want more than %d, which a question has",
			m.texts.Longest(), fixed)
	}
	file := "tokenizer.json"
	if m.blocks {
		file = ""
	}
	b.Check(file, err)
	return &head{pooling: "lasttoken", labels: []string{"yes"}, answers: a}
}

// outputs returns the table of output weights: a separate table, or the token embeddings.
func (m *Model) outputs(b *builder) *weights.Table {
	for _, name := range []string{"lm_head.weight", "output.weight"} {
		if b.Has(name) {
			return b.Table(name, m.vocab, m.hidden, nil)
		}
	}
	return m.tables.words
}

// pair returns the tokens of the question whether a text matches a query. A question that is too
// long is truncated at its end.
func (a *answers) pair(t *tokenize.Texts, query, text string) (r tokenize.Read, err error) {
	asked, err := t.Plain(question(a.instruction, query, text))
	if err != nil {
		return r, err
	}
	room := t.Longest() - len(a.before) - len(a.after)
	n := min(len(asked), room)
	r.Left = len(asked) - n
	for _, part := range [][]int32{a.before, asked[:n], a.after} {
		r.Tokens = append(r.Tokens, part...)
	}
	return r, nil
}

// score writes the probability of yes for each row of x: σ of the difference of both logits.
func (a *answers) score(p *attn.Pool, dst []float32, x attn.Tensor) error {
	for i := range x.L {
		row := x.Row(0, 0, i)
		dst[i] = attn.Dot(row, a.rows[:x.D]) - attn.Dot(row, a.rows[x.D:])
	}
	scores := attn.BHLD(dst, 1, 1, x.L, 1)
	return nn.Activate(p, scores, scores, nn.Sigmoid)
}
