package tokenize

import (
	"math/rand/v2"
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
		got, err := budgetFor(len(c.text)).normalize(traced{text: c.text}, p.normalizers)
		if err != nil || got.text != c.want {
			t.Errorf("%s: %q becomes %q (%v), want %q", c.stage, c.text, got.text, err, c.want)
		}
	}
}

// TestManyMarks has letters with more marks than the library handles, in the forms that Unicode
// defines.
func TestManyMarks(t *testing.T) {
	acute, below := strings.Repeat("\u0301", 40), strings.Repeat("\u0323", 20)
	for _, c := range []struct{ stage, text, want string }{
		{"NFC", "e" + acute, "é" + acute[2:]},
		{"NFC", "é" + acute, "é" + acute},
		{"NFD", "é" + acute, "e\u0301" + acute},
		{"NFKC", "ﬁ" + acute, "fí" + acute[2:]},
		{"NFKD", "ﬁ" + acute, "fi" + acute},
		{"NFD", "a" + acute + below, "a" + below + acute},
		{"NFC", "a" + acute + below, "ạ" + below[2:] + acute},
		{"NFC", "Å" + below + acute, "Ạ" + below[2:] + "\u030a" + acute}, // the ring comes after dots
		{"NFC", acute + "e", acute + "e"},
		{"NFC", "e\u034f" + acute, "e\u034f" + acute},
		{"NFC", "e" + acute + "\u034f" + acute, "é" + acute[2:] + "\u034f" + acute},
		{"NFC", "각" + acute + "\u1100\u1161\u11a8", "각" + acute + "각"},
		{"NFC", "\u0915\u093c" + acute, "\u0915\u093c" + acute},           // not composed
		{"NFC", "\u09c7" + below + "\u09be", "\u09c7" + below + "\u09be"}, // marks are between them
		{"NFC", "ö a" + acute + " ﬁ", "ö á" + acute[2:] + " ﬁ"},
	} {
		p, err := newPipeline([]byte(`{"type": "`+c.stage+`"}`), nil, nil, nil, 9)
		if err != nil {
			t.Fatal(err)
		}
		got, err := budgetFor(len(c.text)).normalize(traced{text: c.text}, p.normalizers)
		if err != nil || got.text != c.want {
			t.Errorf("%s: %+q becomes %+q (%v), want %+q", c.stage, c.text, got.text, err, c.want)
		}
	}
	if got, _ := newCleaning().normalize(traced{text: "E" + acute}, budgetFor(100)); got.text != "e" {
		t.Errorf("cleaned, a letter with 40 marks is %q, want e", got.text)
	}
}

// TestFormsOfTheLibrary compares forms of random texts with few marks with the library.
func TestFormsOfTheLibrary(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 5))
	letters := []rune("aeo Åéﬁ각ᄀ가각한क़ে়\u09be\u09c7" +
		"\u0301\u0323\u0307\u030a\u0344\u0345\u05bc\u0315ṩſ①㌀\u1161\u11a8\u034f\U0001d15e")
	for range 20000 {
		var text []rune
		for range source.IntN(12) {
			text = append(text, letters[source.IntN(len(letters))])
		}
		for _, form := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
			got := traced{}.transform(editsInForm(form, string(text))).text
			if want := form.String(string(text)); got != want {
				t.Fatalf("form %d: %+q becomes %+q, want %+q", form, string(text), got, want)
			}
		}
	}
}
