package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// tileWords is a comment and the words of an instruction below it.
var tileWords = regexp.MustCompile(`(?m)^\t// (.*)\n((?:\t(?:LONG|WORD|BYTE) \$0x[0-9a-f]+\n)+)`)

// The words of AMX instructions are what the comments above them say, by LLVM's disassembler, where
// it is installed; with ATTN_TEST_TOOLS=required it must be.
func TestTileWords(t *testing.T) {
	tool, err := exec.LookPath("llvm-mc-19")
	if err != nil && os.Getenv("ATTN_TEST_TOOLS") == "required" {
		t.Fatal(err)
	}
	if err != nil {
		t.Log("llvm-mc-19 is not installed; that the words are current is checked all the same")
		return
	}
	text, err := os.ReadFile("../internal/kernel/integers/tiles_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	var want []string
	for _, m := range tileWords.FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
		for line := range strings.Lines(m[2]) {
			word := strings.Fields(line)
			n := map[string]int{"LONG": 4, "WORD": 2, "BYTE": 1}[word[0]]
			var x uint64
			fmt.Sscanf(word[1], "$0x%x", &x)
			for range n {
				fmt.Fprintf(&code, "0x%02x ", x&0xff)
				x >>= 8
			}
		}
		code.WriteString("\n")
	}
	cmd := exec.Command(tool, "--disassemble", "--triple=x86_64", "--output-asm-variant=1",
		"--mattr=+amx-tile,+amx-int8")
	cmd.Stdin = strings.NewReader(code.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != ".text" {
			got = append(got, strings.Join(f, " "))
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%d instructions, want %d\n%.400s", len(got), len(want), out)
	}
	for i, text := range want {
		if got[i] != text {
			t.Errorf("instruction %d is %q, its comment says %q", i, got[i], text)
		}
	}
}
