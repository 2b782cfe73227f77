package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// late is what PyLate says of a model that makes a vector of each token (ColBERT): how queries and
// documents become tokens, and which of these have vectors.
type late struct {
	lateFile
	tokenize.Late
	said map[string]bool // keys that the file has, of those that errors name
}

// lateFile is what config_sentence_transformers.json says of such models only.
type lateFile struct {
	Query    *string   `json:"query_prefix"`
	Document *string   `json:"document_prefix"`
	Queries  *int      `json:"query_length"`
	Length   *int      `json:"document_length"`
	Expand   *bool     `json:"do_query_expansion"`
	Attend   *bool     `json:"attend_to_expansion_tokens"`
	Words    *[]string `json:"skiplist_words"`
}

const (
	promptsJSON = "config_sentence_transformers.json"
	maxSim      = "MaxSim"

	queryPrefix, documentPrefix = "query_prefix", "document_prefix"
	queryLength, documentLength = "query_length", "document_length"

	// punctuation is Python's string.punctuation.
	punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

// errLate is why Encode is refused.
var errLate = errors.New("modules.json has no Pooling: it makes a vector for each token, want " +
	"EncodeQueries, EncodeDocuments or Rerank")

// errNotLate is why vectors of tokens are refused.
var errNotLate = errors.New("it makes a vector of a text, want a model of PyLate, whose " +
	"modules.json has no Pooling, or Encode")

// newLate is what files that say nothing mean.
func newLate() *late {
	return &late{lateFile: lateFile{Query: new("[Q] "), Document: new("[D] "), Queries: new(32),
		Length: new(180), Expand: new(true), Attend: new(false),
		Words: new(strings.Split(punctuation, ""))}}
}

// obey takes what the file says.
func (a *late) obey(l *weights.Loader, f *lateFile, width *int, similarity *string) {
	a.said = map[string]bool{queryLength: f.Queries != nil, documentLength: f.Length != nil,
		queryPrefix: f.Query != nil, documentPrefix: f.Document != nil}
	f.Query, f.Document = cmp.Or(f.Query, a.Query), cmp.Or(f.Document, a.Document)
	f.Queries, f.Length = cmp.Or(f.Queries, a.Queries), cmp.Or(f.Length, a.Length)
	f.Expand, f.Attend = cmp.Or(f.Expand, a.Expand), cmp.Or(f.Attend, a.Attend)
	f.Words = cmp.Or(f.Words, a.Words)
	a.lateFile = *f
	l.Check(promptsJSON, weights.Sizes([]string{queryLength, documentLength}, *f.Queries,
		*f.Length))
	if width != nil {
		l.Check(promptsJSON, fmt.Errorf("truncate_dim is %d, want null: modules.json has no Pooling",
			*width))
	}
	if similarity != nil && *similarity != maxSim {
		l.Check(promptsJSON, fmt.Errorf("similarity_fn_name is %q, want %q: modules.json has no Pooling",
			*similarity, maxSim))
	}
}

// check refuses keys beside a Pooling.
func (f *lateFile) check() error {
	for _, x := range []struct {
		key   string
		given bool
	}{{queryPrefix, f.Query != nil}, {documentPrefix, f.Document != nil},
		{queryLength, f.Queries != nil}, {documentLength, f.Length != nil},
		{"do_query_expansion", f.Expand != nil}, {"attend_to_expansion_tokens", f.Attend != nil},
		{"skiplist_words", f.Words != nil}} {
		if x.given {
			return fmt.Errorf("%s is there, and modules.json has a Pooling, want one of both", x.key)
		}
	}
	return nil
}

// find looks for the tokens that the files name.
func (a *late) find(l *weights.Loader, m *Model) {
	lengths := []string{queryLength, documentLength}
	for i, n := range []int{*a.Queries, *a.Length} {
		if least, most := 4, m.texts.Longest(); n < least || n > most {
			l.Check(promptsJSON, fmt.Errorf("%s, want %d to %d, as the model has positions",
				a.is(lengths[i], n), least, most))
		}
	}
	if w := m.local.Left; a.fills() && w > 0 && *a.Queries > w && m.locals != nil {
		l.Check(promptsJSON, fmt.Errorf("%s, want at most %d, as many tokens as layers with windows "+
			"see: further ones would see none", a.is(queryLength, *a.Queries), w))
	}
	keys := []string{queryPrefix, documentPrefix}
	for i, text := range []string{*a.Query, *a.Document} {
		if text != "" && !m.texts.HasToken(text) {
			l.Check(promptsJSON, fmt.Errorf("%s, want a token of exactly this text, with its spaces, in "+
				"the tokenizer", a.is(keys[i], strconv.Quote(text))))
		}
	}
	a.Late = tokenize.ReadLate(l, m.texts, []string{*a.Query, *a.Document}, *a.Words, *a.Expand)
}

// is says what a key means, and whether the file says it.
func (a *late) is(key string, value any) string {
	if a.said[key] {
		return fmt.Sprintf("%s is %v", key, value)
	}
	return fmt.Sprintf("%s is not there, which means %v", key, value)
}

// fills says whether queries have tokens at their ends that nobody sees.
func (a *late) fills() bool { return *a.Expand && !*a.Attend }

// EncodeQueries returns a vector of Dimensions numbers and length 1 for each token of queries, of a
// model as PyLate has it (ColBERT): rows [1, 1, Σ lens, Dimensions], one text after another, and
// how many rows each has. Rows of a query are rows.Slice(first, first+lens[i]), which nn.MaxSim
// takes. Tokens that fill queries up have vectors, too.
func (m *Model) EncodeQueries(texts []string) (rows attn.Tensor, lens []int, err error) {
	return m.vectors(context.Background(), texts, true)
}

// EncodeDocuments is EncodeQueries of documents, of which words in skiplist_words, as punctuation,
// have no vectors. Rows and lens are what nn.MaxSim takes.
func (m *Model) EncodeDocuments(texts []string) (rows attn.Tensor, lens []int, err error) {
	return m.vectors(context.Background(), texts, false)
}

// maxSims are the scores of texts for a query.
func (m *Model) maxSims(ctx context.Context, query string, texts []string) ([]float32, error) {
	q, _, err := m.vectors(ctx, []string{query}, true)
	if err != nil {
		return nil, err
	}
	rows, lens, err := m.vectors(ctx, texts, false)
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(texts))
	if err := nn.MaxSim(m.pool, scores, q, rows, lens); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return scores, nil
}

// vectors are those of the tokens of texts.
func (m *Model) vectors(ctx context.Context, texts []string, queries bool) (rows attn.Tensor,
	lens []int, err error) {
	if m.late == nil {
		return rows, nil, fmt.Errorf("embed: %s: %w", m.path, errNotLate)
	}
	tokens, seen, err := m.lateTokens(ctx, texts, queries)
	if err != nil {
		return rows, nil, err
	}
	width, sum := m.Dimensions(), 0
	for _, text := range tokens {
		n := len(text)
		for _, id := range text {
			if !queries && slices.Contains(m.late.Skipped, id) {
				n--
			}
		}
		lens, sum = append(lens, n), sum+n
	}
	dst := make([]float32, sum*width)
	if err := m.computeTokens(ctx, dst, tokens, seen, lens, queries); err != nil {
		return rows, nil, err
	}
	return attn.BHLD(dst, 1, 1, sum, width), lens, nil
}

// lateTokens are those of queries or documents, with a prefix behind the first of a text. Seen is
// how many tokens of each the others see, nil for all.
func (m *Model) lateTokens(ctx context.Context, texts []string, queries bool) (tokens [][]int32,
	seen []int, err error) {
	a := m.late
	length, prefix := *a.Length, a.Prefixes[1]
	if queries {
		length, prefix = *a.Queries, a.Prefixes[0]
	}
	if prefix >= 0 {
		length--
	}
	r := &reading{Model: m, ctx: ctx, before: m.prompt, inputs: texts, within: length}
	if err := r.run((*Model).checkRead); err != nil {
		return nil, nil, err
	}
	for i := range texts {
		ids := r.reads[i].Tokens
		n := len(ids)
		if queries && *a.Expand {
			ids = append(ids, slices.Repeat([]int32{a.Fill}, max(0, length-n))...)
		}
		if prefix >= 0 {
			ids, n = slices.Insert(ids, 1, prefix), n+1
		}
		tokens = append(tokens, ids)
		if queries && a.fills() {
			seen = append(seen, n)
		}
	}
	return tokens, seen, nil
}

// computeTokens makes the rows of dst, batch by batch.
func (m *Model) computeTokens(ctx context.Context, dst []float32, tokens [][]int32,
	seen, lens []int, queries bool) error {
	r, err := m.take(ctx)
	if err != nil {
		return err
	}
	defer m.give(r)
	width := m.Dimensions()
	for done := 0; done < len(tokens); {
		n := m.batch(tokens[done:])
		r.load(tokens[done:done+n], nil)
		if r.seen = nil; seen != nil {
			r.seen = seen[done : done+n]
		}
		r.forward()
		r.seen = nil
		r.pooled = append(r.pooled[:0], r.x[:r.tokens*r.hidden]...)
		r.after(r.tokens, r.hidden)
		kept := 0
		for i, id := range r.ids {
			if queries || !slices.Contains(m.late.Skipped, id) {
				copy(dst[kept*width:][:width], r.pooled[i*width:])
				kept++
			}
		}
		x := attn.BHLD(dst, 1, 1, kept, width)
		r.try(nn.L2Norm(r.pool, x, x, 0))
		from := 0
		for i, size := range lens[done : done+n] {
			r.checkFinite(dst[from:from+size*width], done+i, size*width)
			from += size * width
		}
		if r.err != nil {
			return fmt.Errorf("embed: %w", r.err)
		}
		dst = dst[kept*width:]
		if done += n; m.options.Progress != nil {
			m.options.Progress(done, len(tokens))
		}
	}
	return nil
}
