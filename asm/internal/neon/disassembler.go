package neon

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// wordLine is an encoded instruction with its comment.
var wordLine = regexp.MustCompile(`(?m)^\tWORD \$0x([0-9a-f]{8}) // (.*)$`)

// CheckWords compares the comment of every WORD in an assembly file with what
// LLVM's disassembler makes of the word, and returns how many it has compared:
// none if llvm-mc is not installed.
func CheckWords(text []byte) (checked int, err error) {
	tool := disassembler()
	lines := wordLine.FindAllSubmatch(text, -1)
	if tool == "" || len(lines) == 0 {
		return 0, nil
	}
	var code strings.Builder
	for _, l := range lines {
		w := l[1] // in memory the lowest byte comes first
		fmt.Fprintf(&code, "0x%s 0x%s 0x%s 0x%s\n", w[6:8], w[4:6], w[2:4], w[0:2])
	}
	cmd := exec.Command(tool, "--disassemble", "--triple=aarch64", "--mattr=+neon,+dotprod")
	cmd.Stdin = strings.NewReader(code.String())
	out, err := cmd.CombinedOutput() // a word that is no instruction makes it print a warning
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", tool, err, out)
	}
	got := instructions(out)
	if len(got) != len(lines) {
		return 0, fmt.Errorf("%s found %d instructions in %d words\n%.400s", tool, len(got), len(lines),
			out)
	}
	for i, l := range lines {
		if want := string(l[2]); got[i] != want {
			return i, fmt.Errorf("word 0x%s is %q, its comment says %q", l[1], got[i], want)
		}
	}
	return len(lines), nil
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
