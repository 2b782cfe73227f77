package embed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Model computes vectors of texts or images, or their labels, or scores of pairs of texts. A method
// that the model's files are not made for returns an error that says so. A Model is safe for
// concurrent use: calls share only the workers and wait for nothing else.
type Model struct {
	*description
	sentence
	options  Options
	path     string
	texts    *tokenize.Texts
	tables   tables
	all      []layer
	final    *norm
	distance attn.Distance   // of each head
	head     *head           // nil for none
	words    *tokenize.Words // which tokens begin words, for a head that labels tokens
	noVector error           // error of Encode, nil if there are vectors
	noEnd    error           // why texts lack the last token that lasttoken pooling needs
	scored   []string        // labels of a GGUF file that scores, nil for others
	matrices int             // bytes of matrices

	images  *Model           // the tower of images: itself if it reads nothing else, nil for none
	family  string           // model_type of a model of images
	project func(b *builder) // loads what comes after both towers, nil for nothing
	scaling [2]float32       // of cosines of texts and images

	pool   *attn.Pool
	mutex  sync.Mutex
	idle   []*runner
	closed bool
}

const configJSON = "config.json"

// modelKinds maps values of model_type to functions that read such a model's description.
var modelKinds = map[string]func(l *weights.Loader, kind string) *description{
	"bert": readBERT, "roberta": readBERT, "xlm-roberta": readBERT, "camembert": readBERT,
	"distilbert": readDistilBERT, "mpnet": readMPNet, "modernbert": readModernBERT,
	"nomic_bert": readNomic, "new": readGTE, "gte": readGTE, "qwen3": readQwen3, "t5": readT5,
	"deberta-v2": readDeBERTa, "gemma3_text": readGemma,
}

// Open opens a model: a GGUF file, or a folder with config.json, model.safetensors (F32, F16 or
// BF16; or several with an index), a tokenizer and optionally the files of sentence-transformers.
// Nothing is downloaded: a path that does not exist is fs.ErrNotExist. Errors name the file and the
// key. Close releases the memory.
func Open(path string, o Options) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	m := &Model{options: o, path: path}
	var l *weights.Loader
	if weights.IsGGUF(path) {
		l = weights.OfGGUF(path, o.way())
		m.openGGUF(l)
	} else {
		l = m.openFolder(weights.Of(path, o.way()))
	}
	m.build(l)
	l.Close()
	if l.Err != nil {
		return nil, l.Err
	}
	return m.start()
}

// checkPath refuses paths that do not exist, such as a model's name on Hugging Face.
func checkPath(path string) error {
	if path == "" {
		return errors.New("embed: the path is \"\", want a model's folder or GGUF file")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("embed: there is no folder or file %q, want one with a model, which is not "+
			"downloaded: %w", path, fs.ErrNotExist)
	}
	return nil
}

// openFolder reads the configuration and tokenizer of a folder, and opens its tensors. It returns
// the loader of these, which may be in a folder of it.
func (m *Model) openFolder(outer *weights.Loader) *weights.Loader {
	l, modules := imageFolder(outer)
	kind := readKind(l)
	if modules != nil || imageKinds[kind] != nil {
		m.openImages(outer, l, kind, modules)
		l.Open()
		return l
	}
	m.description = readDescription(l, kind)
	if l.Err == nil {
		m.sentence = readSentence(l, m.hidden)
		if m.late != nil {
			m.sentence.longest = m.description.longest // PyLate has its own limits
			m.noVector = errLate
		}
		m.texts = tokenize.ReadTexts(l, m.vocab, m.sentence.longest, m.description.longest)
		if m.late != nil && l.Err == nil {
			m.late.findTokens(l, m)
		}
	}
	l.Open()
	return l
}

// readKind reads the model_type of config.json.
func readKind(l *weights.Loader) string {
	var first struct {
		Type          *string  `json:"model_type"`
		Architectures []string `json:"architectures"`
	}
	l.JSON(configJSON, &first, strictjson.AnyKey)
	kind := "bert" // early folders lack model_type
	if first.Type != nil {
		kind = *first.Type
	}
	for _, name := range first.Architectures {
		if first.Type == nil && !strings.HasPrefix(name, "Bert") {
			l.Check(configJSON, fmt.Errorf("architectures is %q and model_type is not there, want one of %s",
				first.Architectures, knownKinds()))
		}
	}
	return kind
}

// readDescription reads config.json as a kind of model.
func readDescription(l *weights.Loader, kind string) *description {
	if l.Err != nil {
		return nil
	}
	read := modelKinds[kind]
	if read == nil {
		l.Check(configJSON, fmt.Errorf("model_type is %q, want one of %s", kind, knownKinds()))
		return nil
	}
	return read(l, kind)
}

func knownKinds() string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(modelKinds)), maps.Keys(imageKinds))
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// build loads the weights.
func (m *Model) build(l *weights.Loader) {
	if l.Err != nil {
		return
	}
	if m.images != nil {
		m.buildImages(l)
		return
	}
	b := newBuilder(l, m.description)
	m.tables = b.loadTables()
	m.all = b.loadLayers()
	m.final = b.loadNorm(b.names.final)
	m.loadDistances(b)
	m.loadALiBi()
	m.loadRelative(b)
	m.loadConvolution(b)
	m.loadHead(b)
	m.matrices = l.Packed
	l.CheckUsed(m.names.idleTensors()...)
}

// start applies the options and starts the workers.
func (m *Model) start() (*Model, error) {
	if err := m.applyOptions(); err != nil {
		return nil, fmt.Errorf("embed: %s: %w", m.path, err)
	}
	m.pool = attn.NewPool(m.options.Workers)
	if v := m.images; v != nil {
		v.pool, v.options, v.dimensions = m.pool, m.options, m.dimensions
	}
	return m, nil
}

// applyOptions validates and applies the options that depend on the model.
func (m *Model) applyOptions() error {
	o := &m.options
	if err := m.checkUseful(o); err != nil {
		return err
	}
	if err := m.checkTextOptions(o); err != nil {
		return err
	}
	if o.Pooling != nil {
		if err := m.overridePooling(o.Pooling); err != nil {
			return err
		}
	}
	if err := m.checkEnd(); err != nil {
		return err
	}
	if o.Prompt != "" {
		text, err := m.promptOf(o.Prompt)
		if err != nil {
			return fmt.Errorf("Options.Prompt is %w", err)
		}
		m.prompt = text
	}
	if o.MaxTokens > 0 && m.late != nil {
		return fmt.Errorf("Options.MaxTokens is %d, want 0: query_length and document_length say how "+
			"many", o.MaxTokens)
	}
	if o.MaxTokens > 0 {
		if all := m.texts.Longest(); o.MaxTokens > all {
			return fmt.Errorf("Options.MaxTokens is %d, want at most %d", o.MaxTokens, all)
		}
		if err := m.texts.Shorten(o.MaxTokens); err != nil {
			return fmt.Errorf("Options.MaxTokens is %w", err)
		}
	}
	if o.Dimensions > 0 {
		if all := m.fullWidth(); o.Dimensions > all {
			return fmt.Errorf("Options.Dimensions is %d, want at most %d", o.Dimensions, all)
		}
		m.dimensions = o.Dimensions
	}
	return nil
}

// checkTextOptions refuses options for texts that a model of images does not have.
func (m *Model) checkTextOptions(o *Options) error {
	switch {
	case m.images != nil && o.Pooling != nil:
		return fmt.Errorf("Options.Pooling is %q, want nil for a model of images", o.Pooling)
	case m.texts == nil && o.MaxTokens > 0:
		return fmt.Errorf("Options.MaxTokens is %d, want 0: %w", o.MaxTokens, errNoTexts)
	case m.texts == nil && o.Cut != nil:
		return fmt.Errorf("%w, with Options.Cut nil", errNoTexts)
	}
	return nil
}

// checkEnd refuses lasttoken pooling if texts lack the last token of training: the vector would be
// the last word's.
func (m *Model) checkEnd() error {
	if m.noEnd == nil || m.noVector != nil || !slices.Contains(m.modes, "lasttoken") {
		return nil
	}
	return fmt.Errorf("pooling lasttoken needs the vector of %s behind a text: %w; "+
		"use a file made since September 2025, or the model's folder", endOfText, m.noEnd)
}

// checkUseful refuses options that have no effect on this model.
func (m *Model) checkUseful(o *Options) error {
	if o.Instruction != "" && (m.head == nil || m.head.answers == nil) {
		return fmt.Errorf("Options.Instruction is %q, want \"\" for a model that is no Qwen3-Reranker",
			o.Instruction)
	}
	for _, of := range []struct {
		given      bool
		name, form string
		value      any
		unset      string
	}{{o.Pooling != nil, "Pooling", "%q", o.Pooling, "nil"},
		{o.Dimensions != 0, "Dimensions", "%d", o.Dimensions, "0"},
		{o.Normalize, "Normalize", "%v", o.Normalize, "false"},
		{o.Prompt != "", "Prompt", "%q", o.Prompt, `""`}} {
		if of.given && m.noVector != nil && (m.late == nil || of.name != "Prompt") {
			return fmt.Errorf("Options.%s is "+of.form+", want %s: %w", of.name, of.value, of.unset,
				m.noVector)
		}
	}
	return nil
}

// Dimensions returns the number of elements of a vector.
func (m *Model) Dimensions() int {
	if all := m.fullWidth(); m.dimensions == 0 || m.dimensions > all {
		return all
	}
	return m.dimensions
}

// MaxTokens returns the maximum of tokens of a text, 0 for a model of images alone. Longer texts
// are truncated.
func (m *Model) MaxTokens() int {
	if m.texts == nil {
		return 0
	}
	if m.late != nil {
		return *m.late.Length
	}
	return m.texts.Longest()
}

// Memory returns the bytes of the weights: matrices, and lookup tables.
func (m *Model) Memory() (matrices, lookups int) {
	for _, t := range []*weights.Table{m.tables.words, m.tables.positions, m.tables.segments} {
		if t != nil {
			lookups += t.MemoryUse()
		}
	}
	if m.images != nil {
		v := m.images.vision
		lookups += 4 * (len(v.before) + len(v.places) + len(v.table))
	}
	for i := range m.all {
		lookups += 4 * (len(m.all[i].relativeQueries) + len(m.all[i].relativeKeys))
	}
	return m.matrices, lookups + 4*len(m.distance.Query.Data)
}

// MultiplyAdds returns the number of multiply-adds for a text of some tokens, in matrix products
// and attention. Their time is a lower bound for encoding the text.
func (m *Model) MultiplyAdds(tokens int) int {
	all := 0
	for i := range m.all {
		l := &m.all[i]
		products := l.output.In*l.output.Out + l.down.In*l.down.Out
		for _, by := range [][]weights.Linear{l.input, l.up} {
			for j := range by {
				products += by[j].In * by[j].Out
			}
		}
		if m.relative != nil && tokens > 0 {
			products += m.heads * m.width * m.relative.products(tokens)
		}
		if x := l.experts; x != nil {
			products += x.router.In*x.router.Out + 2*m.mixture.top*m.hidden*m.ffn
		}
		all += tokens*products + 2*m.heads*m.width*m.pairs(tokens, l.window)
	}
	all += tokens * m.convolution.by.In * m.convolution.by.Out
	return all
}

// pairs returns the number of query-key pairs of a text.
func (m *Model) pairs(tokens int, window attn.Window) int {
	n := tokens * tokens
	if m.causal {
		n = tokens * (tokens + 1) / 2
	}
	if window.Left > 0 && window.Right > 0 {
		n = min(n, tokens*(window.Left+window.Right-1))
	}
	return n
}

// String returns the model's kind and size.
func (m *Model) String() string {
	return fmt.Sprintf("%s: %d layers of %d, %d heads", m.kind, m.layers, m.hidden, m.heads)
}

// Close waits for running calls and ends the workers. Later calls are [attn.ErrClosed]. Close of
// nil does nothing.
func (m *Model) Close() error {
	if m == nil {
		return nil
	}
	m.mutex.Lock()
	m.closed, m.idle = true, nil
	m.mutex.Unlock()
	if v := m.images; v != nil && v != m {
		v.mutex.Lock()
		v.closed, v.idle = true, nil
		v.mutex.Unlock()
	}
	return m.pool.Close()
}

// acquireRunner returns a runner for one call.
func (m *Model) acquireRunner(ctx context.Context) (*runner, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.closed {
		return nil, m.closedError()
	}
	if n := len(m.idle); n > 0 {
		r := m.idle[n-1]
		m.idle = m.idle[:n-1]
		r.ctx = ctx
		return r, nil
	}
	return &runner{Model: m, ctx: ctx}, nil
}

// closedError returns the error of calls after Close.
func (m *Model) closedError() error {
	return fmt.Errorf("embed: the model of %s was closed: %w", m.path, attn.ErrClosed)
}

// releaseRunner keeps a runner for later calls.
func (m *Model) releaseRunner(r *runner) {
	r.err, r.ctx = nil, nil
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !m.closed {
		m.idle = append(m.idle, r)
	}
}

// errNoHead is the error of Rerank for models that make vectors.
var errNoHead = errors.New("it has no head that scores texts, want a cross-encoder")
