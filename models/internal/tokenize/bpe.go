package tokenize

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// BPE is the byte-pair encoding of a tokenizer.json: bytes as letters, as GPT-2 and Llama 3 have
// it, or text whose spaces are ▁, with bytes for what the vocabulary lacks, as Llama 2 has it. What
// it does not know is an error, not other tokens. It is own code because the pure Go libraries that
// were found do not read these files: sugarme/tokenizer v0.3.0 panics at the lookahead in the
// patterns of Llama 3 and Qwen 2, and ignores byte_fallback, and gomlx/go-huggingface v0.3.1 has
// models of SentencePiece only.
type BPE struct {
	pipeline
	*pairs
	decoders []decoder
	chat     chat.Template
	noChat   string       // why there is no chat template
	begin    []int        // before conversations, unless the template writes it
	texts    []string     // of tokens that the model has
	added    map[int]bool // whose texts are as they are
}

// ReadBPE reads tokenizer.json, and the files beside it that say more of tokens, for a model that
// has some tokens.
func ReadBPE(l *weights.Loader, vocab int) *BPE {
	t, config, added := readBPEFile(l, vocab)
	if l.Err == nil {
		checkAround(l, named{"bos_token", &config.Start}, "before", t.before, added)
		checkAround(l, named{"eos_token", &config.Stop}, "after", t.after, added)
	}
	return t
}

// readBPEFile is ReadBPE for encoders, too: of these eos_token may end answers that nobody gives,
// and another one texts, as Qwen3-Embedding has it.
func readBPEFile(l *weights.Loader, vocab int) (*BPE, *tokenizerConfig, []addedToken) {
	var f tokenizerFile[bpeModel]
	t := &BPE{}
	l.JSON(tokenizerJSON, &f, tokenizerIdle)
	config := readConfig(l)
	t.chat, t.noChat = chatTemplate(l, config)
	if f.Added = addedTokens(l, config, f.Added, f.Model.Vocab); l.Err == nil {
		l.Check(tokenizerJSON, t.build(&f, vocab))
	}
	if l.Err == nil {
		l.Check(tokenizerConfigJSON, config.agreesWithBPE(&t.pipeline))
	}
	if config.AddBegin != nil && *config.AddBegin {
		t.begin = t.before
	}
	return t, config, f.Added
}

func (t *BPE) build(f *tokenizerFile[bpeModel], size int) (err error) {
	if err := checkTokens(f.Added, f.Model.Vocab); err != nil {
		return err
	}
	t.added = map[int]bool{}
	for text, id := range f.Model.Vocab {
		t.setText(id, text, size)
	}
	for _, a := range f.Added {
		t.setText(a.ID, a.Content, size)
		t.added[a.ID] = true
	}
	markControl(f.Added, t.chat.Source)
	t.pipeline, err = newPipeline(f.Normalizer, f.PreTokenizer, f.PostProcessor, f.Added, size)
	if err == nil {
		t.pairs, err = newPairs(f.Model)
	}
	if err == nil {
		t.decoders, err = decoderKinds.read(f.Decoder)
	}
	if err == nil {
		err = checkStrips(t.decoders)
	}
	if len(t.decoders) == 0 {
		t.decoders = t.usualDecoders()
	}
	return err
}

func (t *BPE) last() (string, int) { return lastOf(t.Vocab) }

func (t *BPE) number(text string) (id int, ok bool) {
	id, ok = t.Vocab[text]
	return id, ok
}

// setText keeps the text of a token, if it is one of a model with some tokens.
func (t *BPE) setText(id int, text string, size int) {
	if id < 0 || id >= size {
		return
	}
	if id >= len(t.texts) {
		t.texts = slices.Grow(t.texts, id+1-len(t.texts))[:id+1]
	}
	t.texts[id] = text
}

// Text is a token as the vocabulary spells it, "" if the model does not have it.
func (t *BPE) Text(id int) string {
	if id < 0 || id >= len(t.texts) {
		return ""
	}
	return t.texts[id]
}

// usualDecoders are those of files without any: what pre-tokenizers do is undone.
func (t *BPE) usualDecoders() []decoder {
	for _, p := range t.preTokenizers {
		if _, ok := p.(*byteLevel); ok {
			return []decoder{&byteLetters{}}
		}
	}
	return []decoder{&byteTokens{}, &spaces{metaspace{Replacement: "▁"}}}
}

// checkStrips refuses a Strip before any Fuse, as it would be of each token.
func checkStrips(decoders []decoder) error {
	for _, d := range decoders {
		switch d.(type) {
		case *fuse:
			return nil
		case *stripBeginning:
			return fmt.Errorf("decoder Strip: it comes before any Fuse, want it after")
		}
	}
	return nil
}

// Encode returns the tokens of a prompt, control tokens among them whose texts it has.
func (t *BPE) Encode(text string) ([]int, error) {
	return t.prompt(trust(text))
}

// EncodePlain returns those of a prompt whose writer may write no control tokens: what looks like
// one is text.
func (t *BPE) EncodePlain(text string) ([]int, error) {
	return t.prompt(fromUsers(text))
}

func (t *BPE) prompt(s passage) ([]int, error) {
	ids, err := t.encode(s, t.word)
	if err != nil {
		return nil, err
	}
	return t.around(ids)
}

// ControlIn are the texts of control tokens that Encode finds in a text, each once.
func (t *BPE) ControlIn(text string) (found []string) {
	pieces, _ := t.pieces(trust(text)) // who encodes the text has the error
	for _, id := range Union(controls(pieces)) {
		found = append(found, t.Text(id))
	}
	return found
}

// Conversation returns the tokens of messages up to where the answer begins. Its template says all
// tokens around them, but for the one that add_bos_token puts before all texts. What messages say
// has no control tokens, unless control is true.
func (t *BPE) Conversation(control bool, messages ...chat.Message) ([]int, error) {
	if t.chat.Source == "" {
		why := ""
		if t.noChat != "" {
			why = ": " + t.noChat
		}
		return nil, fmt.Errorf("the model has no chat template%s, want one, as GGUF files have as "+
			"tokenizer.chat_template, and folders in chat_template.jinja or tokenizer_config.json", why)
	}
	pieces, err := t.chat.Render(messages...)
	if err != nil {
		return nil, err
	}
	ids, err := t.encode(rendered(pieces, control), t.word)
	if n := len(t.begin); err == nil && (len(ids) < n || !slices.Equal(ids[:n], t.begin)) {
		ids = slices.Concat(t.begin, ids)
	}
	return ids, err
}

// Template is the chat template, which Conversation renders.
func (t *BPE) Template() *chat.Template { return &t.chat }

// Decode returns the bytes of a token, which may be part of a letter only.
func (t *BPE) Decode(id int) string {
	text := t.Text(id)
	if t.added[id] {
		return text
	}
	for _, d := range t.decoders {
		text = d.decode(text)
	}
	return text
}
