package embed

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// sentence is the configuration in the files of sentence-transformers: how texts are tokenized, and
// how the rows of their tokens become vectors.
type sentence struct {
	listed     bool              // there is a modules.json, or a GGUF file with a pooling
	prompt     string            // default prompt before each text
	prompts    map[string]string // by name
	withPrompt bool              // the pooling includes the prompt's tokens
	similarity string            // how vectors are compared
	lower      bool              // texts are lowercased before the tokenizer
	longest    int               // maximum of tokens of a text, 0 for the tokenizer's
	dimensions int               // maximum of dimensions, to truncate to; 0 for all
	modes      pooling
	steps      []step
	late       *late // nil for a model with one vector for a text
}

// step is a step after the pooling: a dense layer or, if that is nil, normalization.
type step struct{ *dense }

// usualSentence returns the defaults for models without such files.
func usualSentence() sentence {
	return sentence{modes: pooling{"mean"}, steps: []step{{}}, withPrompt: true, similarity: "cosine"}
}

// module is an entry of modules.json.
type module struct {
	Index int    `json:"idx"`
	Name  string `json:"name"`
	Path  string `json:"path"`
	Type  string `json:"type"`
}

// kind returns the last part of the type. Its other parts differ between versions.
func (m *module) kind() string { return m.Type[strings.LastIndex(m.Type, ".")+1:] }

// readSentence reads the files for a model with rows of the given width. Without modules.json the
// modules are a Transformer, a Pooling and a Normalize.
func readSentence(l *weights.Loader, width int) sentence {
	const file = "modules.json"
	s, list := usualSentence(), []module(nil)
	l.OptionalJSON(file, &list, strictjson.Idle{"kwargs": {"[]"}})
	if list == nil {
		list = []module{{Type: "Transformer"}, {Type: "Pooling"}, {Type: "Normalize"}}
	} else {
		s.listed = true
		l.Check(file, checkModules(list))
		if l.Err == nil && list[1].kind() == "Dense" {
			s.late = newLate()
		}
	}
	s.steps = nil
	s.readTexts(l)
	for _, m := range list {
		switch m.kind() {
		case "Pooling":
			width = s.readPooling(l, m.Path, width)
		case "Dense":
			var d *dense
			d, width = readDense(l, m.Path, width, s.late != nil)
			s.steps = append(s.steps, step{d})
		case "Normalize":
			s.steps = append(s.steps, step{})
		}
	}
	return s
}

// checkModules accepts two lists: a Transformer, a Pooling and any number of Dense and Normalize,
// or for vectors of tokens a Transformer and some Dense.
func checkModules(list []module) error {
	for i, m := range list {
		kinds := [][]string{{"Transformer"}, {"Pooling", "Dense"}, {"Dense", "Normalize"}}[min(i, 2)]
		if i > 1 && list[1].kind() == "Dense" {
			kinds = []string{"Dense"}
		}
		switch {
		case m.Index != i || !slices.Contains(kinds, m.kind()):
			return fmt.Errorf("module %d has idx %d and type %q, want idx %d and %s", i, m.Index, m.Type, i,
				strings.Join(kinds, " or "))
		case (i == 0) != (m.Path == "") || i > 0 && !filepath.IsLocal(m.Path):
			return fmt.Errorf("module %d has path %q, want none for the first, and for others a folder "+
				"within this one", i, m.Path)
		}
	}
	if len(list) < 2 {
		return fmt.Errorf("there are %d modules, want at least a Transformer, and a Pooling or a Dense",
			len(list))
	}
	return nil
}

// textFiles are the names of the Transformer's file in all versions. The first that exists is read.
var textFiles = []string{"sentence_bert_config.json", "sentence_roberta_config.json",
	"sentence_distilbert_config.json", "sentence_camembert_config.json",
	"sentence_albert_config.json", "sentence_xlm-roberta_config.json", "sentence_xlnet_config.json"}

// readTexts reads limits, prompts and other settings of texts.
func (s *sentence) readTexts(l *weights.Loader) {
	var limits struct {
		Longest *int `json:"max_seq_length"`
		Lower   bool `json:"do_lower_case"`
	}
	file := l.First(textFiles...)
	const prompts = promptsJSON
	l.OptionalJSON(file, &limits, strictjson.Idle{"transformer_task": {`"feature-extraction"`},
		"module_output_name": {`"token_embeddings"`}, "unpad_inputs": nil, "model_args": {"{}"},
		"modality_config":   {`{"text":{"method":"forward","method_output_name":"last_hidden_state"}}`},
		"processing_kwargs": {"{}"}, "tokenizer_args": {"{}"}, "config_args": {"{}"}})
	s.lower = limits.Lower
	if limits.Longest != nil {
		s.longest = *limits.Longest
		l.Check(file, weights.Sizes([]string{"max_seq_length"}, s.longest))
	}
	var texts struct {
		Prompts map[string]string `json:"prompts"`
		Default *string           `json:"default_prompt_name"`
		Width   *int              `json:"truncate_dim"`
		Compare *string           `json:"similarity_fn_name"`
		lateFile
	}
	idle := strictjson.Idle{"__version__": nil, "model_type": {`"SentenceTransformer"`}}
	if s.late != nil {
		idle["model_type"] = []string{`"ColBERT"`}
	}
	l.OptionalJSON(prompts, &texts, idle)
	if s.late != nil {
		s.late.applyFile(l, &texts.lateFile, texts.Width, texts.Compare)
		s.similarity, texts.Compare, texts.Width = maxSim, nil, nil
	} else {
		l.Check(prompts, texts.lateFile.check())
	}
	s.prompts = texts.Prompts
	if texts.Default != nil {
		var err error
		if s.prompt, err = s.promptOf(*texts.Default); err != nil {
			l.Check(prompts, fmt.Errorf("default_prompt_name is %w", err))
		}
	}
	if texts.Compare != nil {
		s.similarity = *texts.Compare
		l.Check(prompts, checkSimilarity(s.similarity))
	}
	if texts.Width != nil {
		s.dimensions = *texts.Width
		l.Check(prompts, weights.Sizes([]string{"truncate_dim"}, s.dimensions))
	}
}

// Prompts returns the names of the model's prompts, such as query and document.
func (s *sentence) Prompts() []string { return slices.Sorted(maps.Keys(s.prompts)) }

// promptOf returns the prompt of a name, "" for the name "".
func (s *sentence) promptOf(name string) (string, error) {
	text, ok := s.prompts[name]
	switch {
	case ok || name == "":
		return text, nil
	case len(s.prompts) == 0:
		return "", fmt.Errorf("%q, want none: the files have no prompts", name)
	}
	return "", fmt.Errorf("%q, want one of %q, as the files have them", name, s.Prompts())
}

// prepareText returns the tokenizer's input for a text: with its prompt, and lowercased if need be.
func (s *sentence) prepareText(prompt, text string) string {
	if text = prompt + text; s.lower {
		return cases.Lower(language.Und).String(text)
	}
	return text
}

// dense is a layer after the pooling.
type dense struct {
	weights.Linear
	activation nn.Activation
}

// denseActivations maps PyTorch classes in files of Dense layers to activations.
var denseActivations = map[string]nn.Activation{"Tanh": nn.Tanh, "Identity": nn.None,
	"ReLU": nn.ReLU, "GELU": nn.GELU, "SiLU": nn.SiLU, "Sigmoid": nn.Sigmoid}

// readDense reads a Dense layer, for rows of tokens or of texts, and returns its output width.
func readDense(l *weights.Loader, path string, width int, tokens bool) (*dense, int) {
	var c struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       bool   `json:"bias"`
		Activation string `json:"activation_function"`
	}
	c.Bias, c.Activation = true, "Tanh"
	file, rows := filepath.Join(path, "config.json"), []string{`"sentence_embedding"`}
	if tokens {
		c.Activation, rows = "Identity", []string{`"token_embeddings"`}
	}
	l.JSON(file, &c, strictjson.Idle{"module_input_name": rows, "module_output_name": rows,
		"use_residual": {"false"}})
	l.Check(file, weights.Sizes([]string{"in_features", "out_features"}, c.In, c.Out))
	activation, ok := denseActivations[c.Activation[strings.LastIndex(c.Activation, ".")+1:]]
	switch {
	case !ok:
		l.Check(file, fmt.Errorf("activation_function is %q, want GELU, Identity, ReLU, Sigmoid, SiLU "+
			"or Tanh", c.Activation))
	case c.In != width:
		l.Check(file, fmt.Errorf("in_features is %d, want %d as the module before has them", c.In, width))
	}
	if l.Err != nil {
		return nil, 0
	}
	inner := weights.Of(filepath.Join(l.Path, path), l.Way)
	inner.Open()
	defer inner.Close()
	kind := attn.F32
	if l.Integers {
		kind = attn.I8
	}
	d := &dense{inner.Linear(kind, c.In, c.Bias, weights.Part{Name: "linear", Out: c.Out}),
		activation}
	inner.CheckUsed()
	l.Err, l.Packed = inner.Err, l.Packed+inner.Packed
	return d, c.Out
}

// fullWidth returns the length of vectors before truncation.
func (m *Model) fullWidth() int {
	width := len(m.modes) * m.hidden
	for _, s := range m.steps {
		if s.dense != nil {
			width = s.dense.Out
		}
	}
	return width
}
