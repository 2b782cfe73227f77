package embed_test

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn/models/embed"
)

// Redaction: names in a text become their labels. Start and End are places in bytes of the text.
func ExampleModel_Entities() {
	m, err := embed.Open("bert-base-NER", embed.Options{})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	redacted, err := redact(m, []string{"Ada Lovelace met Charles Babbage in London."})
	if err != nil {
		panic(err)
	}
	fmt.Println(redacted[0]) // [PER] met [PER] in [LOC].
}

// redact returns texts with labels in place of entities.
func redact(m *embed.Model, texts []string) ([]string, error) {
	all, err := m.Entities(texts, embed.First) // whole words
	if err != nil {
		return nil, err
	}
	redacted := make([]string, len(texts))
	for i, text := range texts {
		var to strings.Builder
		from := 0
		for _, e := range all[i] {
			to.WriteString(text[from:e.Start] + "[" + e.Label + "]")
			from = e.End
		}
		redacted[i] = to.String() + text[from:]
	}
	return redacted, nil
}
