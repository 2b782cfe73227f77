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

// late is the PyLate configuration of a model with a vector for each token (late interaction,
// ColBERT): how queries and documents are tokenized, and which tokens have vectors.
type late struct {
	lateFile
	tokenize.Late
	said map[string]bool // whether the file has a key, for errors
}

// lateFile has the keys of config_sentence_transformers.json for such models only.
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

// errLate is the error of Encode for a model with a vector for each token.
var errLate = errors.New("modules.json has no Pooling: it makes a vector for each token, want " +
	"EncodeQueries, EncodeDocuments or Rerank")

// errNotLate is the error of EncodeQueries and EncodeDocuments for other models.
var errNotLate = errors.New("it makes a vector of a text, want a model of PyLate, whose " +
	"modules.json has no Pooling, or Encode")

// newLate returns PyLate's defaults.
func newLate() *late {
	return &late{lateFile: lateFile{Query: new("[Q] "), Document: new("[D] "), Queries: new(32),
		Length: new(180), Expand: new(true), Attend: new(false),
		Words: new(strings.Split(punctuation, ""))}}
}

// applyFile replaces defaults by the keys of the file and validates them.
func (a *late) applyFile(l *weights.Loader, f *lateFile, width *int, similarity *string) {
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

// check refuses PyLate's keys for a model with a Pooling.
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

// findTokens validates the lengths and looks up the tokens that the files name.
func (a *late) findTokens(l *weights.Loader, m *Model) {
	lengths := []string{queryLength, documentLength}
	for i, n := range []int{*a.Queries, *a.Length} {
		if least, most := 4, m.texts.Longest(); n < least || n > most {
			l.Check(promptsJSON, fmt.Errorf("%s, want %d to %d, as the model has positions",
				a.describeKey(lengths[i], n), least, most))
		}
	}
	if w := m.local.Left; a.fills() && w > 0 && *a.Queries > w && m.locals != nil {
		l.Check(promptsJSON, fmt.Errorf("%s, want at most %d, as many tokens as layers with windows "+
			"see: further ones would see none", a.describeKey(queryLength, *a.Queries), w))
	}
	if a.fills() && m.relative != nil { // versions of transformers differ in what they compute
		l.Check(promptsJSON, errors.New("attend_to_expansion_tokens is false and do_query_expansion "+
			"true, want the same of both: a DeBERTa has no vectors of masked tokens"))
	}
	keys := []string{queryPrefix, documentPrefix}
	for i, text := range []string{*a.Query, *a.Document} {
		if text != "" && !m.texts.HasToken(text) {
			l.Check(promptsJSON, fmt.Errorf("%s, want a token of exactly this text, with its spaces, in "+
				"the tokenizer", a.describeKey(keys[i], strconv.Quote(text))))
		}
	}
	a.Late = tokenize.ReadLate(l, m.texts, []string{*a.Query, *a.Document}, *a.Words, *a.Expand)
}

// describeKey returns a key's value for errors, marked if it is a default.
func (a *late) describeKey(key string, value any) string {
	if a.said[key] {
		return fmt.Sprintf("%s is %v", key, value)
	}
	return fmt.Sprintf("%s is not there, which means %v", key, value)
}

// fills reports whether queries are padded with tokens that other tokens do not see.
func (a *late) fills() bool { return *a.Expand && !*a.Attend }

// EncodeQueries returns a vector of Dimensions numbers and norm 1 for each token of the queries,
// for a PyLate model (ColBERT): rows [1, 1, Σ lens, Dimensions], one text after another, and the
// number of rows of each text. rows.Slice(first, first+lens[i]) is a query for nn.MaxSim. Tokens
// that pad queries have vectors, too.
func (m *Model) EncodeQueries(texts []string) (rows attn.Tensor, lens []int, err error) {
	return m.vectors(context.Background(), texts, true)
}

// EncodeDocuments is [Model.EncodeQueries] for documents. Words of skiplist_words, such as
// punctuation, have no vectors. rows and lens are arguments for nn.MaxSim.
func (m *Model) EncodeDocuments(texts []string) (rows attn.Tensor, lens []int, err error) {
	return m.vectors(context.Background(), texts, false)
}

// maxSims returns the MaxSim scores of texts for a query.
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

// vectors returns the vectors of the tokens of texts, and their number for each text.
func (m *Model) vectors(ctx context.Context, texts []string, queries bool) (rows attn.Tensor,
	lens []int, err error) {
	if m.texts == nil {
		return rows, nil, fmt.Errorf("embed: %s: %w", m.path, errNoTexts)
	}
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

// lateTokens returns the tokens of queries or documents, with the prefix after the first token.
// seen is how many tokens of each text attention may read, nil for all.
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
	if err := r.readAll((*Model).checkRead); err != nil {
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

// computeTokens writes the vectors of tokens to dst, batch by batch.
func (m *Model) computeTokens(ctx context.Context, dst []float32, tokens [][]int32,
	seen, lens []int, queries bool) error {
	r, err := m.acquireRunner(ctx)
	if err != nil {
		return err
	}
	defer m.releaseRunner(r)
	width := m.Dimensions()
	for done := 0; done < len(tokens); {
		n := m.batchSize(tokens[done:])
		r.loadBatch(tokens[done:done+n], nil)
		if r.seen = nil; seen != nil {
			r.seen = seen[done : done+n]
		}
		r.forward()
		r.seen = nil
		r.pooled = append(r.pooled[:0], r.x[:r.tokens*r.hidden]...)
		r.applySteps(r.tokens, r.hidden)
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
