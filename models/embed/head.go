package embed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// head is the classifier of a model that scores texts or pairs of them: an optional layer with an
// activation, an optional norm, and a layer with one output for each label.
type head struct {
	pooling    string
	dense      *weights.Linear // nil for none
	activation nn.Activation
	norm       *norm // nil for none
	out        weights.Linear
	labels     []string
	sigmoid    bool     // scores go through a sigmoid
	problem    string   // problem_type of config.json, "" for none
	tokens     bool     // tokens have labels, in place of texts
	classes    []string // architectures of config.json
	answers    *answers // replaces all but pooling and labels, nil for none
}

// headNames are the names of a head's tensors. A name with @ has the prefix of the encoder.
type headNames struct {
	dense, norm, out string
	activation       nn.Activation
	noBias, noBiases bool // dense, out have no bias
}

// bertHead uses the encoder's pooler.
var bertHead = headNames{dense: "@pooler.dense", out: "classifier", activation: nn.Tanh}

// robertaHead has both layers in its classifier.
var robertaHead = headNames{dense: "classifier.dense", out: "classifier.out_proj",
	activation: nn.Tanh}

// labelHead labels tokens.
var labelHead = headNames{out: "classifier"}

// otherHeads are suffixes of classes that compute no vectors, with heads that are not read.
var otherHeads = []string{"ForMultipleChoice", "ForNextSentencePrediction", "ForQuestionAnswering"}

// The suffixes of classes with a head that is read.
const labelsTexts, labelsTokens = "ForSequenceClassification", "ForTokenClassification"

// labelsFile has the keys of config.json about a head.
type labelsFile struct {
	Architectures []string          `json:"architectures"`
	Labels        map[string]string `json:"id2label"`
	Count         *int              `json:"num_labels"`
	Problem       string            `json:"problem_type"`
	Older         string            `json:"sbert_ce_default_activation_function"`
	Newer         *struct {
		Activation string `json:"activation_fn"`
		Version    string `json:"version"`
	} `json:"sentence_transformers"`
}

// loadHead loads the head if the class has one. A model with modules.json makes embeddings. A head
// in the files of another class is an error: it may be trained for anything.
func (m *Model) loadHead(b *builder) {
	if b.Err != nil {
		return
	}
	if m.answers {
		m.loadDecoderHead(b)
		return
	}
	if m.blocks {
		m.loadGGUFHead(b)
		return
	}
	var f labelsFile
	b.JSON(configJSON, &f, strictjson.AnyKey)
	tensor := m.names.head.out + ".weight"
	has := m.names.head.out != "" && b.Has(tensor)
	switch {
	case m.listed:
	case f.is(labelsTokens):
		m.loadTokenHead(b, &f)
	case f.is(labelsTexts):
		m.noVector = fmt.Errorf("%s: architectures is %q, which scores texts or pairs of texts, as "+
			"cross-encoders do, and has no embeddings, want Classify, Scores or Rerank, or a "+
			"modules.json that says how to make embeddings", configJSON, f.Architectures)
		if !has {
			b.Check("", m.noVector)
			return
		}
		m.head = m.readHead(b, &f, m.names.head)
	case has || slices.ContainsFunc(otherHeads, f.is):
		b.Check(configJSON, fmt.Errorf("architectures is %q, and the files have a head or are for one, "+
			"want a class that ends in %s or %s, or a modules.json that says how to make embeddings",
			f.Architectures, labelsTexts, labelsTokens))
	}
}

// loadTokenHead loads the head of a model that labels tokens.
func (m *Model) loadTokenHead(b *builder, f *labelsFile) {
	n := m.names.tokenHead
	if n.out == "" {
		b.Check(configJSON, fmt.Errorf("architectures is %q, which labels tokens, and model_type is %q,"+
			" want bert, distilbert, roberta, xlm-roberta, camembert, mpnet, modernbert or deberta-v2",
			f.Architectures, m.kind))
		return
	}
	m.noVector = fmt.Errorf("%s: architectures is %q, which labels tokens and has no embeddings, "+
		"want Entities", configJSON, f.Architectures)
	m.head = m.readHead(b, f, n)
	m.head.tokens = true
	m.words = m.texts.Words()
}

// loadGGUFHead loads the head of a GGUF file whose pooling_type is 4. A file without label names
// has one label. Layers and biases that a converter omitted are skipped, as in llama.cpp.
func (m *Model) loadGGUFHead(b *builder) {
	if m.scored == nil {
		return
	}
	n := m.names.head
	if !b.Has(n.out + ".weight") {
		but := "no " + n.dense + ".weight either"
		if b.Has(n.dense + ".weight") {
			but = n.dense + ".weight alone, which makes no scores"
		}
		b.Check("", fmt.Errorf("%s.pooling_type is 4, and there is no tensor %s.weight, and %s, want "+
			"the head of a cross-encoder", m.kind, n.out, but))
		return
	}
	n.noBias, n.noBiases = !b.Has(n.dense+".bias"), !b.Has(n.out+".bias")
	if !b.Has(n.dense + ".weight") {
		n.dense = ""
	}
	f := labelsFile{Labels: map[string]string{}}
	for i, label := range m.scored {
		f.Labels[strconv.Itoa(i)] = label
	}
	if len(m.scored) == 0 {
		f.Labels["0"] = "LABEL_0"
	}
	m.head = m.readHead(b, &f, n)
}

// is reports whether the name of a class ends in a suffix.
func (f *labelsFile) is(suffix string) bool {
	return slices.ContainsFunc(f.Architectures, func(class string) bool {
		return strings.HasSuffix(class, suffix)
	})
}

// problems are the values of problem_type.
var problems = []string{"", regression, multiLabel, "single_label_classification"}

const regression, multiLabel = "regression", "multi_label_classification"

func (m *Model) readHead(b *builder, f *labelsFile, n headNames) *head {
	labels, err := f.names()
	b.Check(configJSON, err)
	if !slices.Contains(problems, f.Problem) {
		b.Check(configJSON, fmt.Errorf("problem_type is %q, want one of %q", f.Problem, problems[1:]))
	}
	h := &head{labels: labels, activation: n.activation, pooling: m.headPooling, problem: f.Problem,
		classes: f.Architectures}
	loadDense := func(name string, bias bool, out int) weights.Linear {
		whole, at := strings.CutPrefix(name, "@")
		if at {
			whole = b.at + whole
		}
		kind := attn.F32
		switch {
		case b.blocks:
			kind = -1
		case b.Integers:
			kind = attn.I8
		}
		return b.Linear(kind, m.hidden, bias, weights.Part{Name: whole, Out: out})
	}
	if n.dense != "" {
		loaded := loadDense(n.dense, !n.noBias, m.hidden)
		h.dense = &loaded
	}
	if n.norm != "" {
		at := b.at
		b.at = ""
		h.norm = b.loadNorm(n.norm)
		b.at = at
	}
	h.out = loadDense(n.out, !n.noBiases, len(labels))
	h.sigmoid, err = f.sigmoid(len(labels))
	b.Check(configJSON, err)
	return h
}

// names returns the labels in order of their numbers. Without any key there are two.
func (f *labelsFile) names() ([]string, error) {
	n, key := 2, "num_labels"
	if f.Labels != nil {
		n, key = len(f.Labels), "the number of labels in id2label"
	} else if f.Count != nil {
		n = *f.Count
	}
	if err := weights.Sizes([]string{key}, n); err != nil {
		return nil, err
	}
	labels := make([]string, n)
	for i := range labels {
		labels[i] = fmt.Sprintf("LABEL_%d", i)
		if f.Labels == nil {
			continue
		}
		text, ok := f.Labels[strconv.Itoa(i)]
		if !ok {
			return nil, fmt.Errorf("id2label has %d labels and none of number %d, want 0 to %d", n, i, n-1)
		}
		labels[i] = text
	}
	return labels, nil
}

// sigmoid reports whether scores go through a sigmoid: as the files say, by default for one label.
func (f *labelsFile) sigmoid(labels int) (bool, error) {
	name := f.Older
	if f.Newer != nil && f.Newer.Activation != "" {
		name = f.Newer.Activation
	}
	switch name[strings.LastIndex(name, ".")+1:] {
	case "":
		return labels == 1, nil
	case "Sigmoid":
		return true, nil
	case "Identity":
		return false, nil
	}
	return false, fmt.Errorf("activation_fn is %q, want Sigmoid or Identity", name)
}

// scoreBatch writes the logits of the batch, a row of all labels for each text. Scores may go
// through a sigmoid.
func (r *runner) scoreBatch(dst []float32, out output) {
	h, n, first := r.head, len(r.lens), 0
	r.pooled = resize(r.pooled, n*r.hidden)
	for i, size := range r.lens {
		r.poolText(r.pooled[i*r.hidden:][:r.hidden], r.x[first*r.hidden:][:size*r.hidden], h.pooling, 0)
		first += size
	}
	x := attn.BHLD(r.pooled[:n*r.hidden], 1, 1, n, r.hidden)
	if h.answers != nil {
		r.try(h.answers.score(r.pool, dst, x))
		return
	}
	r.applyHead(dst, x)
	if h.sigmoid && out == outScores {
		x := attn.BHLD(dst, 1, 1, n, len(h.labels))
		r.try(nn.Activate(r.pool, x, x, nn.Sigmoid))
	}
}

// applyHead writes the logits of rows.
func (r *runner) applyHead(dst []float32, x attn.Tensor) {
	h, n := r.head, x.L
	if h.dense != nil {
		r.next = resize(r.next, n*r.hidden)
		y := attn.BHLD(r.next, 1, 1, n, r.hidden)
		if r.err == nil {
			r.err = h.dense.Multiply(r.pool, y, x)
		}
		r.try(nn.Activate(r.pool, y, y, h.activation))
		x = y
	}
	if h.norm != nil {
		r.try(nn.LayerNorm(r.pool, x, x, h.norm.weight, h.norm.bias, r.epsilon))
	}
	out := attn.BHLD(dst, 1, 1, n, len(h.labels))
	if r.err == nil {
		r.err = h.out.Multiply(r.pool, out, x)
	}
}

// Labels returns the names of scores and classes in the order of their numbers, nil for a model
// that makes vectors.
func (m *Model) Labels() []string {
	if m.head == nil {
		return nil
	}
	return m.head.labels
}

// Rerank returns a score of each text for the query, where more is better. The model is a
// cross-encoder with one label, Qwen3-Reranker or a PyLate model (ColBERT).
//
// Scores of most cross-encoders are between 0 and 1, of models whose files say Identity any
// numbers. If query and text are too long together, the longer one is truncated first.
// Qwen3-Reranker's score is the probability of the answer yes. A ColBERT's score is MaxSim, the sum
// over the query's tokens of the largest product with a token of the text; query and text have
// separate length limits.
func (m *Model) Rerank(query string, texts []string) ([]float32, error) {
	return m.RerankContext(context.Background(), query, texts)
}

// RerankContext is [Model.Rerank] with a context. It ends early when ctx is done, as
// [Model.EncodeContext] does.
func (m *Model) RerankContext(ctx context.Context, query string, texts []string) ([]float32,
	error) {
	if m.late != nil {
		return m.maxSims(ctx, query, texts)
	}
	if m.checkScores() == nil && len(m.head.labels) != 1 {
		return nil, fmt.Errorf("embed: %s: it has labels %q, want Scores, which returns a score for "+
			"each, or a model with one", m.path, m.head.labels)
	}
	return m.scores(ctx, query, texts)
}

// Scores returns for each text a row of scores, one for each of the Labels.
func (m *Model) Scores(query string, texts []string) ([][]float32, error) {
	all, err := m.scores(context.Background(), query, texts)
	if err != nil {
		return nil, err
	}
	return rowsOf(all, len(texts), len(m.head.labels)), nil
}

// checkScores refuses models that do not score texts.
func (m *Model) checkScores() error {
	switch {
	case m.texts == nil:
		return fmt.Errorf("embed: %s: %w", m.path, errNoTexts)
	case m.head == nil:
		return fmt.Errorf("embed: %s: %w", m.path, errNoHead)
	case m.head.tokens:
		return fmt.Errorf("embed: %s: architectures is %q, which labels tokens, want Entities, or a "+
			"model whose class ends in %s", m.path, m.head.classes, labelsTexts)
	}
	return nil
}

func (m *Model) scores(ctx context.Context, query string, texts []string) ([]float32, error) {
	if err := m.checkScores(); err != nil {
		return nil, err
	}
	return m.pairLogits(ctx, queryAndText, query, texts, outScores)
}

// pairLogits returns a row of scores or logits for each pair of a text and another one.
func (m *Model) pairLogits(ctx context.Context, pairs pairing, first string, others []string,
	out output) ([]float32, error) {
	r := &reading{Model: m, ctx: ctx, before: first, pairs: pairs, inputs: others}
	if err := r.readAll((*Model).checkPair); err != nil {
		return nil, err
	}
	tokens, segments := make([][]int32, len(others)), make([][]int32, len(others))
	for i := range others {
		tokens[i], segments[i] = r.reads[i].Tokens, r.reads[i].Segments
	}
	dst := make([]float32, len(others)*len(m.head.labels))
	if err := m.compute(ctx, dst, tokens, segments, 0, out); err != nil {
		return nil, err
	}
	return dst, nil
}

// pair returns the tokens of a query and a text.
func (m *Model) pair(query, text string) (tokenize.Read, error) {
	if m.head.answers != nil {
		return m.head.answers.pair(m.texts, query, text)
	}
	return m.texts.Pair(m.prepareText("", query), m.prepareText("", text))
}

// checkPair refuses segments that the model has no embedding for.
func (m *Model) checkPair(text int, read *tokenize.Read) error {
	for _, segment := range read.Segments {
		if m.description.segments > 0 && (segment < 0 || int(segment) >= m.description.segments) {
			return fmt.Errorf("its tokens are in segment %d, want 0 to %d by type_vocab_size", segment,
				m.description.segments-1)
		}
	}
	return m.checkRead(text, read)
}

// output is what compute writes for each text.
type output int

const (
	outVectors output = iota
	outScores         // of the head, by what the files say of its activation
	outLogits         // of the head
)

// outWidth returns how many numbers compute writes for a text.
func (m *Model) outWidth(out output) int {
	if out == outVectors {
		return m.Dimensions()
	}
	return len(m.head.labels)
}
