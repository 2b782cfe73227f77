package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tileWords is a comment and the words of an instruction below it.
var tileWords = regexp.MustCompile(
	`(?m)^\t// (.*)\n\t((?:(?:LONG|WORD|BYTE) \$\w+(?:; |$))+)`)

// vexWords is a macro, the words that it is, and what these mean.
var vexWords = regexp.MustCompile(
	`(?m)^#define \w+ (LONG \$0x[0-9a-f]+; BYTE \$0x[0-9a-f]+) // (.*)$`)

// The words of AMX instructions are what the comments above them say, by LLVM's disassembler, where
// it is installed; with ATTN_TEST_TOOLS=required it must be.
func TestTileWords(t *testing.T) {
	var words, want []string
	for _, file := range []string{"../internal/kernel/integers/tiles_amd64.s",
		"../internal/kernel/blockwise/blocktiles_amd64.s",
		"../internal/kernel/pairs/pairtiles_amd64.s"} {
		for _, m := range tileWords.FindAllStringSubmatch(assemblyText(t, file), -1) {
			words = append(words, strings.ReplaceAll(m[2], "; ", "\n"))
			want = append(want, m[1])
		}
	}
	checkWords(t, "+amx-tile,+amx-int8,+amx-bf16", words, want)
}

// The words of AVX-VNNI's macros agree with the comments next to them, and with their names.
func TestVNNIWords(t *testing.T) {
	for _, file := range []string{"../internal/kernel/integers/integers_amd64.s",
		"../internal/kernel/int4/int4_amd64.s",
		"../internal/kernel/blockwise/blockwise_amd64.s", "../internal/limits/loops_amd64.s"} {
		var words, want []string
		text := assemblyText(t, file)
		for _, m := range vexWords.FindAllStringSubmatch(text, -1) {
			words = append(words, strings.ReplaceAll(m[1], "; ", "\n"))
			want = append(want, "{vex} "+m[2])
			var mnemonic string
			var sum, unsigned, signed int
			fmt.Sscanf(strings.ReplaceAll(m[2], ",", " "), "%s ymm%d ymm%d ymm%d", &mnemonic, &sum,
				&unsigned, &signed)
			name := fmt.Sprintf("#define %s_%d_%d_%d LONG", strings.ToUpper(mnemonic), signed, unsigned, sum)
			if !strings.HasPrefix(m[0], name) {
				t.Errorf("%s: the name is that of another one", m[0])
			}
		}
		if n := strings.Count(text, "#define VPDP"); n != len(want) {
			t.Errorf("%s: %d macros, but %d definitions", file, len(want), n)
		}
		checkWords(t, "+avxvnni", words, want)
	}
}

func assemblyText(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkWords asks the disassembler what words are, an instruction each.
func checkWords(t *testing.T, features string, words, want []string) {
	tool, err := exec.LookPath("llvm-mc-19")
	if err != nil && os.Getenv("ATTN_TEST_TOOLS") == "required" {
		t.Fatal(err)
	}
	if err != nil {
		t.Log("llvm-mc-19 is not installed; that the words are current is checked all the same")
		return
	}
	var code strings.Builder
	for _, text := range words {
		for line := range strings.Lines(text) {
			word := strings.Fields(line)
			n := map[string]int{"LONG": 4, "WORD": 2, "BYTE": 1}[word[0]]
			x, err := strconv.ParseUint(word[1][1:], 0, 32) // behind a dollar sign
			if err != nil {
				t.Fatal(err)
			}
			for range n {
				fmt.Fprintf(&code, "0x%02x ", x&0xff)
				x >>= 8
			}
		}
		code.WriteString("\n")
	}
	cmd := exec.Command(tool, "--disassemble", "--triple=x86_64", "--output-asm-variant=1",
		"--mattr="+features)
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
