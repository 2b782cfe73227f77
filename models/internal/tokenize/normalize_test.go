package tokenize

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

func TestNormalizers(t *testing.T) {
	bert := func(options string) string { return `{'type': 'BertNormalizer', ` + options + `}` }
	for _, c := range []struct{ stage, text, want string }{
		{`null`, "Aé", "Aé"},
		{`{'type': 'NFC'}`, "e\u0301ﬁ", "éﬁ"},
		{`{'type': 'NFD'}`, "éﬁ", "e\u0301ﬁ"},
		{`{'type': 'NFKC'}`, "e\u0301ﬁ", "éfi"},
		{`{'type': 'NFKD'}`, "éﬁ", "e\u0301fi"},
		{`{'type': 'Lowercase'}`, "AİÉΣ", "ai\u0307éσ"},
		{`{'type': 'StripAccents'}`, "e\u0301\u0903é", "eé"},
		{`{'type': 'Strip', 'strip_left': true, 'strip_right': false}`, " \u2003a ", "a "},
		{`{'type': 'Strip', 'strip_left': false, 'strip_right': true}`, " a \n", " a"},
		{`{'type': 'Prepend', 'prepend': '▁'}`, "a", "▁a"},
		{`{'type': 'Prepend', 'prepend': '▁'}`, "", ""},
		{`{'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}`, "a  b", "a▁▁b"},
		{`{'type': 'Sequence', 'normalizers': [{'type': 'NFD'}, {'type': 'Sequence', 'normalizers': [
			{'type': 'Lowercase'}, {'type': 'StripAccents'}]}]}`, "ÉA", "ea"},
		{bert(`'lowercase': true`), "Éa", "ea"},
		{bert(`'lowercase': true, 'strip_accents': null`), "İÉ", "ie"},
		{bert(`'lowercase': true, 'strip_accents': false`), "İÉ", "i\u0307é"},
		{bert(`'lowercase': false, 'strip_accents': true`), "É\u0903", "E\u0903"},
		{bert(`'lowercase': false`), "a\tb\nc\rd\u2003e", "a b c d e"},
		{bert(`'lowercase': false`), "a\vb\fc\x1cd\x00e\u0085f\u200bg\ufffdh\ue000i\u00adj", "abcdefghij"},
		{bert(`'lowercase': false`), "a\U0001fae9b\u0378c\u08e2d\uffff", "a\U0001fae9b\u0378c\u08e2d\uffff"},
		{bert(`'strip_accents': true`), "e\u0301e\u0897", "ee\u0897"}, // a mark since Unicode 16
		{bert(`'lowercase': false, 'clean_text': false`), "a\tb\vc\x00d", "a\tb\vc\x00d"},
		{bert(`'lowercase': false`), "a中b〇𠀀㐀豈", "a 中 b〇 𠀀  㐀  豈 "},
		{bert(`'lowercase': false`), "\U0002b8a0\U0002b920", "\U0002b8a0 \U0002b920 "},
		{bert(`'lowercase': false, 'handle_chinese_chars': false`), "a中b", "a中b"},
	} {
		p, err := newPipeline([]byte(strings.ReplaceAll(c.stage, "'", `"`)), nil, nil, nil, 9)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.normalize(c.text, 1000); err != nil || got != c.want {
			t.Errorf("%s: %q becomes %q (%v), want %q", c.stage, c.text, got, err, c.want)
		}
	}
	marks := strings.Repeat("\u0301", 40)
	if got, err := (&unicodeForm{norm.NFC}).normalize("e"+marks, 1000); err == nil {
		t.Errorf("with 40 marks there is no error, but %q", got)
	}
	if got, _ := newCleaning().normalize("E"+marks, 1000); got != "e" {
		t.Errorf("cleaned, a letter with 40 marks is %q, want e", got)
	}
}
