package neon

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
)

// CheckWords compares the text of each word with the output of LLVM's disassembler, and returns the
// number of words compared: 0 if llvm-mc is not installed.
func CheckWords(words []Word) (checked int, err error) {
	tool := disassembler()
	if tool == "" || len(words) == 0 {
		return 0, nil
	}
	var code strings.Builder
	for _, w := range words { // in memory the lowest byte comes first
		c := w.Code
		fmt.Fprintf(&code, "0x%02x 0x%02x 0x%02x 0x%02x\n", c&255, c>>8&255, c>>16&255, c>>24)
	}
	cmd := exec.Command(tool, "--disassemble", "--triple=aarch64", "--mattr=+neon,+dotprod")
	cmd.Stdin = strings.NewReader(code.String())
	out, err := cmd.CombinedOutput() // a word that is no instruction makes it print a warning
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", tool, err, out)
	}
	got := instructions(out)
	if len(got) != len(words) {
		return 0, fmt.Errorf("%s found %d instructions in %d words\n%.400s", tool, len(got), len(words),
			out)
	}
	for i, w := range words {
		if got[i] != w.Text {
			return i, fmt.Errorf("word 0x%08x is %q, its text says %q", w.Code, got[i], w.Text)
		}
	}
	return len(words), nil
}

// disassembler is the name of the installed llvm-mc, if there is one.
func disassembler() string {
	for _, name := range []string{"llvm-mc", "llvm-mc-21", "llvm-mc-20", "llvm-mc-19", "llvm-mc-18",
		"llvm-mc-14"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// instructions are the lines of a disassembly, with single spaces and without directives.
func instructions(out []byte) (lines []string) {
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		if len(fields) > 0 && !strings.HasPrefix(fields[0], ".") {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	return lines
}
