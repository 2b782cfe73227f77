package neon

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Asm collects the text of one assembly file.
type Asm struct {
	text   bytes.Buffer
	macros map[string]string // that stand for instructions, by name
	words  []Word
}

// Word is an instruction that Go's assembler does not know, and its text in Arm's syntax.
type Word struct {
	Code uint32
	Text string
}

// Bytes returns the file's text so far, without macros.
func (a *Asm) Bytes() []byte { return a.text.Bytes() }

// Macros returns the definitions of the macros that the text uses.
func (a *Asm) Macros() string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.macros)) {
		all.WriteString(a.macros[name])
	}
	return all.String()
}

// Words are the instructions that macros stand for, in the order of the text.
func (a *Asm) Words() []Word { return a.words }

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

// word writes an instruction that Go's assembler does not know, as a macro with a name and the
// numbers of the registers d, n and m, destination first. text is its form in Arm's syntax.
func (a *Asm) word(base uint32, name, text string, registers ...uint8) {
	code, sum := base, fmt.Sprintf("0x%08x", base)
	parameters := []string{"d", "n", "m"}[:len(registers)]
	var numbers []string
	for i, r := range registers {
		at := []int{0, 5, 16}[i]
		code |= uint32(r) << at
		sum += fmt.Sprintf(" | (%s)<<%d", parameters[i], at)
		numbers = append(numbers, fmt.Sprint(r))
	}
	macro := fmt.Sprintf("#define %s(%s) WORD $(%s)\n", name, strings.Join(parameters, ", "), sum)
	if other := a.macros[name]; other != "" && other != macro {
		panic(fmt.Sprintf("asm: %s has two macros:\n%s%s", name, other, macro))
	}
	if a.macros == nil {
		a.macros = map[string]string{}
	}
	a.macros[name] = macro
	a.words = append(a.words, Word{code, text})
	a.Line("\t%s(%s)", name, strings.Join(numbers, ", "))
}
