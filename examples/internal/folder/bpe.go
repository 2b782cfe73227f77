package folder

import (
	"fmt"

	"github.com/seed-1415985d/attn/examples/internal/chat"
	"github.com/seed-1415985d/attn/examples/internal/jinja"
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
	texts    map[int]string
	added    map[int]bool // whose texts are as they are
}

// BPE reads tokenizer.json, and the files beside it that say more of tokens, for a model that has
// some tokens.
func (l *Loader) BPE(vocab int) *BPE {
	var f tokenizerFile[bpeModel]
	t := &BPE{}
	l.JSON(tokenizerJSON, &f, tokenizerIdle)
	config := l.tokenizerConfig()
	if f.Added = l.addedTokens(config, f.Added, f.Model.Vocab); l.Err == nil {
		l.Check(tokenizerJSON, t.build(&f, vocab))
		l.checkAround(named{"bos_token", &config.Start}, "before", t.before, f.Added)
		l.checkAround(named{"eos_token", &config.Stop}, "after", t.after, f.Added)
	}
	if l.Err == nil {
		l.Check(tokenizerConfigJSON, config.agreesWithBPE(&t.pipeline))
	}
	t.chat = chat.Template{Begin: config.Start.Content, End: config.Stop.Content}
	return t
}

func (t *BPE) build(f *tokenizerFile[bpeModel], size int) (err error) {
	if err := checkTokens(f.Added, f.Model.Vocab); err != nil {
		return err
	}
	t.texts, t.added = map[int]string{}, map[int]bool{}
	for text, id := range f.Model.Vocab {
		t.texts[id] = text
	}
	for _, a := range f.Added {
		t.texts[a.ID], t.added[a.ID] = a.Content, true
	}
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

// Encode returns the tokens of a prompt.
func (t *BPE) Encode(text string) ([]int, error) {
	ids, err := t.encode(text, t.word)
	if err != nil {
		return nil, err
	}
	return t.around(ids)
}

// Conversation returns the tokens of messages up to where the answer begins. Its template says all
// tokens around them.
func (t *BPE) Conversation(messages ...chat.Message) ([]int, error) {
	pieces, err := t.chat.Render(messages...)
	if err != nil {
		return nil, err
	}
	return t.encode(jinja.Text(pieces), t.word)
}

// Decode returns the bytes of a token, which may be part of a letter only.
func (t *BPE) Decode(id int) string {
	text := t.texts[id]
	if t.added[id] {
		return text
	}
	for _, d := range t.decoders {
		text = d.decode(text)
	}
	return text
}
