package terminal

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestTerminal writes texts in pieces of each length, as tokens come.
func TestTerminal(t *testing.T) {
	text := "a\tb\r\n\x00\x1b[31m\x7f\u009b2J ü€😀\xff\xc3 end"
	want := "a\tb␍\n␀␛[31m␡\ufffd2J ü€😀\ufffd\ufffd end"
	for n := 1; n <= len(text); n++ {
		var out bytes.Buffer
		w := Writer(&out)
		for i := 0; i < len(text); i += n {
			part := text[i:min(i+n, len(text))]
			if k, err := io.WriteString(w, part); k != len(part) || err != nil {
				t.Fatalf("%d bytes of %d were written (%v)", k, len(part), err)
			}
		}
		if out.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", n, &out, want)
		}
	}
	var out bytes.Buffer
	_, err := io.WriteString(Writer(&out), strings.Repeat("ü\x1b", 5000))
	if out.String() != strings.Repeat("ü␛", 5000) || err != nil {
		t.Errorf("a long text has %d bytes (%v)", out.Len(), err)
	}
}
