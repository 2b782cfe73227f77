package neon

import (
	"bytes"
	"fmt"
)

// Asm collects the text of one assembly file.
type Asm struct {
	text bytes.Buffer
}

// Bytes returns the file's text so far.
func (a *Asm) Bytes() []byte { return a.text.Bytes() }

// Line writes a line as it is.
func (a *Asm) Line(format string, args ...any) {
	fmt.Fprintf(&a.text, format+"\n", args...)
}

// Comment writes a comment between instructions.
func (a *Asm) Comment(format string, args ...any) {
	a.Line("\n\t// "+format, args...)
}

// Label defines a label.
func (a *Asm) Label(name string) { a.Line("%s:", name) }

// op writes an instruction that Go's assembler knows.
func (a *Asm) op(name, format string, args ...any) {
	for _, arg := range args { // fmt would swallow a panic of String
		if r, ok := arg.(interface{ check() }); ok {
			r.check()
		}
	}
	a.Line("\t%s %s", name, fmt.Sprintf(format, args...))
}

// word writes an instruction that Go's assembler does not know.
func (a *Asm) word(code uint32, format string, args ...any) {
	a.Line("\tWORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}
