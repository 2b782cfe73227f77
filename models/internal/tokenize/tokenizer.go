// Package tokenize turns texts into tokens and back, with the files of a model: tokenizer.json,
// vocab.txt, or the metadata of a GGUF file.
package tokenize

import (
	"fmt"
	"iter"
	"slices"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Tokenizer turns texts into tokens and tokens into texts. Anything unknown in its files is an
// error, and never gives other tokens. It is own code because the pure Go libraries that were found
// do not read these files: sugarme/tokenizer v0.3.0 panics at the lookahead in the patterns of
// Llama 3 and Qwen 2, and ignores byte_fallback, and gomlx/go-huggingface v0.3.1 has models of
// SentencePiece only.
type Tokenizer struct {
	pipeline
	model
	Template Template
	Named    Ends         // tokens that end an answer by their numbers
	file     string       // the main file
	begin    []int        // before conversations, if the template does not write it
	texts    []string     // of tokens, by number
	last     addedToken   // of the model: the one with the largest number, or a number below 0
	added    map[int]bool // tokens that are found before the model finds others
	special  map[int]bool // tokens that are not shown
	decoders []decoder
}

// model finds tokens in words.
type model interface {
	// word adds the tokens of a word.
	word(e *encoded, w traced) error
	number(text string) (id int, ok bool)
	all() iter.Seq2[string, int]
	// unknown returns the token for text that the vocabulary lacks.
	unknown() (id int, ok bool)
}

// fileModel is a pointer to the model of a tokenizer.json.
type fileModel[M any] interface {
	*M
	vocabulary() map[string]int
	build() (model, error)
}

// Template is a chat template, with the texts of two tokens that it may use.
type Template struct {
	Source, Begin, End string
	Others             string // why there is no Source, if the files have other templates
}

// usage is the purpose for which a tokenizer is read.
type usage struct {
	size    int  // of the model's vocabulary, 0 for as many as the files have
	decodes bool // tokens become texts
}

// FromFolder reads the tokenizer of a folder: tokenizer.json, or else vocab.txt, and the other
// files that describe tokens.
func FromFolder(l *weights.Loader) *Tokenizer {
	t := readAny(l, usage{decodes: true})
	if l.Err == nil {
		l.Check(t.file, t.checkAround())
	}
	return t
}

// ReadBPE reads the tokenizer of a folder with a language model that has size tokens.
func ReadBPE(l *weights.Loader, size int) *Tokenizer {
	t, config := readBPE(l, usage{size, true})
	if l.Err == nil {
		t.checkNamed(l, named{"bos_token", &config.Start}, "before", t.before)
		t.checkNamed(l, named{"eos_token", &config.Stop}, "after", t.after)
	}
	return t
}

// Beside starts to read a tokenizer, which needs about as long as a start from packed matrices, and
// returns a function that waits for it. Errors of the model come first.
func Beside(l *weights.Loader, read func(l *weights.Loader) *Tokenizer) (wait func() *Tokenizer) {
	other, done := &weights.Loader{Path: l.Path, Err: l.Err}, make(chan *Tokenizer, 1)
	go func() { done <- read(other) }()
	return func() *Tokenizer {
		t := <-done
		if l.Err == nil {
			l.Err = other.Err
		}
		return t
	}
}

// readAny reads a tokenizer with any kind of model.
func readAny(l *weights.Loader, u usage) *Tokenizer {
	kind := ""
	if l.Exists(tokenizerJSON) {
		kind = modelType(l)
	}
	switch kind {
	case "BPE":
		t, _ := readBPE(l, u)
		return t
	case "Unigram":
		return readUnigram(l, u)
	}
	return readWordPiece(l, u)
}

// readFile reads tokenizer.json with a kind of model, and the other files that describe tokens.
func readFile[M any, P fileModel[M]](l *weights.Loader, f *tokenizerFile[M],
	u usage) (*Tokenizer, *tokenizerConfig) {
	t := &Tokenizer{file: tokenizerJSON}
	idle := tokenizerIdle
	if !u.decodes {
		idle = encoderIdle
	}
	l.JSON(tokenizerJSON, f, idle)
	config := readConfig(l)
	t.Template = chatTemplate(l, config)
	if l.Err == nil {
		f.Added = addedTokens(l, config, f.Added, P(&f.Model).vocabulary())
	}
	if l.Err == nil {
		l.Check(tokenizerJSON, build[M, P](t, f, u))
	}
	if config.AddBegin != nil && *config.AddBegin {
		t.begin = t.before
	}
	return t, config
}

// build makes the tokenizer of a tokenizer.json.
func build[M any, P fileModel[M]](t *Tokenizer, f *tokenizerFile[M], u usage) (err error) {
	if err := checkTokens(f.Added, P(&f.Model).vocabulary()); err != nil {
		return err
	}
	markControl(f.Added, t.Template.Source)
	if t.pipeline, err = newPipeline(f.Normalizer, f.PreTokenizer, f.PostProcessor, f.Added,
		u.size); err != nil {
		return err
	}
	if t.model, err = P(&f.Model).build(); err != nil {
		return err
	}
	if u.decodes {
		if t.decoders, err = decoderKinds.read(f.Decoder); err != nil {
			return err
		}
	}
	return t.setDerived(f.Added, u.decodes)
}

// setDerived sets the fields that follow from others.
func (t *Tokenizer) setDerived(added []addedToken, decodes bool) error {
	t.added, t.special = map[int]bool{}, map[int]bool{}
	for _, a := range added {
		t.added[a.ID] = true
		if a.Special {
			t.special[a.ID] = true
		}
	}
	if id, ok := t.unknown(); ok {
		delete(t.control, id) // text of users may become it
	}
	if err := t.count(len(added)); err != nil || !decodes {
		return err
	}
	t.keepTexts(added)
	for _, id := range t.Named.Tokens {
		if hasMarks(t.text(id)) {
			t.control[id] = true
		}
	}
	if len(t.decoders) == 0 {
		t.decoders = t.usualDecoders()
	}
	return checkStrips(t.decoders)
}

// count finds the last token of the model, and sets the number of tokens unless the model gives it.
func (t *Tokenizer) count(added int) error {
	tokens := added
	for text, id := range t.all() {
		tokens++
		if last := t.last.ID; id < 0 || last >= 0 && id >= last {
			t.last = addedToken{ID: id, Content: text}
		}
	}
	if t.size != 0 {
		return nil
	}
	most := mostGrowth*tokens + freeGrowth
	for _, last := range []addedToken{t.last, t.lastAdded} {
		if last.ID < 0 || last.ID >= most {
			return fmt.Errorf("token %q has number %d, want 0 to %d of %d tokens", last.Content, last.ID,
				most-1, tokens)
		}
	}
	t.size = 1 + max(t.last.ID, t.lastAdded.ID)
	return nil
}

// keepTexts keeps the texts of tokens that the model has.
func (t *Tokenizer) keepTexts(added []addedToken) {
	t.texts = make([]string, min(t.size, 1+max(0, t.last.ID, t.lastAdded.ID)))
	keep := func(id int, text string) {
		if id >= 0 && id < len(t.texts) {
			t.texts[id] = text
		}
	}
	for text, id := range t.all() {
		keep(id, text)
	}
	for _, a := range added {
		keep(a.ID, a.Content)
	}
}

// checkAround refuses tokens around texts that do not exist.
func (t *Tokenizer) checkAround() error {
	for _, id := range slices.Concat(t.before, t.after) {
		if id < 0 || id >= t.size {
			return fmt.Errorf("the post_processor puts token %d around texts, want 0 to %d", id, t.size-1)
		}
	}
	return nil
}

// checkNamed refuses a token named for the beginning or the end of texts if tokenizer.json puts
// another one there.
func (t *Tokenizer) checkNamed(l *weights.Loader, n named, where string, around []int) {
	id, ok := t.addedIDs[n.token.Content]
	if !ok || len(around) == 0 || slices.Contains(around, id) {
		return
	}
	l.Check(n.token.file(), fmt.Errorf("%s is %q, token %d, want one that the post_processor of "+
		"tokenizer.json puts %s texts, of %d", n.key, n.token.Content, id, where, around))
}

// Encode returns the tokens of a text that users wrote: the spelling of a control token is text.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	return t.encodeAlone(fromUsers(valid(text)))
}

// EncodeControl returns the tokens of a text, including control tokens that it spells.
func (t *Tokenizer) EncodeControl(text string) ([]int32, error) {
	return t.encodeAlone(trust(valid(text)))
}

// EncodePieces returns the tokens of a text in pieces.
func (t *Tokenizer) EncodePieces(pieces []Piece) ([]int32, error) {
	return t.encodeAlone(joined(pieces))
}

// Span is a token and the bytes of a text that it stands for.
type Span struct {
	Token      int32
	Start, End int
}

// Spans returns the tokens of Encode, and their places.
func (t *Tokenizer) Spans(text string) ([]Span, error) {
	s := given(text)
	return t.spans(passage{s, fromUsers(s.text).trusted}, text)
}

// SpansControl returns the tokens of EncodeControl, and their places.
func (t *Tokenizer) SpansControl(text string) ([]Span, error) {
	s := given(text)
	return t.spans(passage{s, s.text}, text)
}

func (t *Tokenizer) spans(s passage, text string) ([]Span, error) {
	e := encoded{trace: &trace{text, t.trims}}
	err := t.encode(&e, s, t.word)
	ids, err := t.checked(e.ids, err)
	if err != nil {
		return nil, err
	}
	spans := make([]Span, len(ids))
	for i, span := range e.spans {
		spans[i] = Span{ids[i], span.start, span.end}
	}
	return spans, nil
}

// Prompt is Encode with the tokens that the model puts around a text.
func (t *Tokenizer) Prompt(text string) ([]int32, error) { return t.prompt(fromUsers(valid(text))) }

// PromptControl is EncodeControl with the tokens that the model puts around a text.
func (t *Tokenizer) PromptControl(text string) ([]int32, error) {
	return t.prompt(trust(valid(text)))
}

// Conversation returns the tokens of a rendered chat template. The template writes all tokens
// around messages, except the one that add_bos_token puts before all texts.
func (t *Tokenizer) Conversation(pieces []Piece) ([]int32, error) {
	ids, err := t.tokens(joined(pieces))
	if n := len(t.begin); err == nil && (len(ids) < n || !slices.Equal(ids[:n], t.begin)) {
		ids = slices.Concat(t.begin, ids)
	}
	return t.checked(ids, err)
}

// ControlIn returns the texts of the control tokens that EncodeControl finds in a text, each once.
func (t *Tokenizer) ControlIn(text string) (found []string) {
	pieces, _ := t.pieces(trust(valid(text))) // encoding the text returns the error
	for _, id := range Union(controls(pieces)) {
		found = append(found, t.text(id))
	}
	return found
}

func (t *Tokenizer) encodeAlone(s passage) ([]int32, error) { return t.checked(t.tokens(s)) }

func (t *Tokenizer) prompt(s passage) ([]int32, error) {
	ids, err := t.tokens(s)
	return t.checked(slices.Concat(t.before, ids, t.after), err)
}

// tokens returns the tokens of a passage alone.
func (t *Tokenizer) tokens(s passage) ([]int, error) {
	var e encoded
	err := t.encode(&e, s, t.word)
	return e.ids, err
}

// checked refuses tokens that the model does not have.
func (t *Tokenizer) checked(ids []int, err error) ([]int32, error) {
	if err == nil {
		err = t.inRange(ids)
	}
	if err != nil {
		return nil, err
	}
	return narrow(ids), nil
}

// Size returns the number of tokens: they are 0 to Size() - 1.
func (t *Tokenizer) Size() int { return t.size }

// Text returns the spelling of a token in the vocabulary, "" for a number without one.
func (t *Tokenizer) Text(id int32) string { return t.text(int(id)) }

// Token returns the token with a spelling in the vocabulary.
func (t *Tokenizer) Token(text string) (id int32, ok bool) {
	found, ok := t.token(text)
	return int32(found), ok
}

// Special reports whether the files call a token special.
func (t *Tokenizer) Special(id int32) bool { return t.special[int(id)] }

// Control reports whether users must not write a token: its spelling in their text stays text.
func (t *Tokenizer) Control(id int32) bool { return t.control[int(id)] || t.special[int(id)] }

// token returns the number of the token with a text, an added token or one of the vocabulary.
func (t *Tokenizer) token(text string) (id int, ok bool) {
	if id, ok = t.addedIDs[text]; !ok {
		id, ok = t.number(text)
	}
	return id, ok && text != ""
}

// text returns the text of a token, "" if there is none.
func (t *Tokenizer) text(id int) string {
	if id < 0 || id >= len(t.texts) {
		return ""
	}
	return t.texts[id]
}

// Public makes a *tokenizer.Tokenizer. Package tokenizer sets it, so that its exported names need
// no types of internal packages.
var Public func(t *Tokenizer) any
