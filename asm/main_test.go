package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/asm/internal/neon"
	"github.com/seed-1415985d/attn/internal/dev/constants"
	"github.com/seed-1415985d/attn/internal/dev/generate"
)

// programs returns the programs of all generated files.
func programs(t *testing.T) map[string]*program {
	all := map[string]*program{}
	for file, emit := range families {
		p, err := assembly("..", emit)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = p
	}
	return all
}

// The committed assembly is what the generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for file, p := range programs(t) {
		path, text := filepath.Join("..", file), p.file()
		if err := generate.Current(path, text); err != nil {
			t.Error(err)
		}
		if err := generate.Greppable(text, ".", "../internal/dev/blocktypes"); err != nil {
			t.Error(err)
		}
		if err := generate.Twins(text, filepath.Dir(path)); err != nil {
			t.Error(err)
		}
	}
}

// So is the committed Go file.
func TestGeneratedGoIsCurrent(t *testing.T) {
	text, err := blockTypesGo()
	if err != nil {
		t.Fatal(err)
	}
	if err := generate.Current("../internal/kernel/blockwise/types_arm64.go", text); err != nil {
		t.Error(err)
	}
}

// The sizes in the generator are the same as in the package.
func TestSizesAreThoseOfThePackage(t *testing.T) {
	values, err := constants.Read("../internal/kernel/layout.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float32{"Block": block, "Panel": panel} {
		if got := values.Get(name); got != want {
			t.Errorf("%s is %v, the generator has %v", name, got, want)
		}
	}
}

var (
	macro = regexp.MustCompile(`(?m)^#define (\w+)\((.*)\) WORD \$\((0x\w{8})((?: \| \(\w\)<<\d+)+)\)$`)
	field = regexp.MustCompile(`\((\w)\)<<(\d+)`)
	used  = regexp.MustCompile(`(?m)(?:^\t|; )([a-z]\w*)\(([0-9, ]+)\)`)
)

// expand returns the words that macros of an assembly file stand for.
func expand(t *testing.T, text []byte) (words []uint32) {
	macros := map[string]func(registers []string) uint32{}
	for _, m := range macro.FindAllSubmatch(text, -1) {
		parameters := strings.Split(string(m[2]), ", ")
		macros[string(m[1])] = func(registers []string) uint32 {
			if len(registers) != len(parameters) {
				t.Fatalf("%s has the registers %v", m[0], registers)
			}
			code := number(t, string(m[3]), 32)
			for _, f := range field.FindAllStringSubmatch(string(m[4]), -1) {
				r := number(t, registers[slices.Index(parameters, f[1])], 5)
				code |= r << number(t, f[2], 5)
			}
			return code
		}
	}
	for _, u := range used.FindAllSubmatch(text, -1) {
		if macros[string(u[1])] == nil {
			t.Fatalf("there is no macro for %s", u[0])
		}
		words = append(words, macros[string(u[1])](strings.Split(string(u[2]), ", ")))
	}
	return words
}

// number reads one of some bits.
func number(t *testing.T, text string, bits int) uint32 {
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// TestEncoding compares every instruction that is a macro with an independent disassembler.
func TestEncoding(t *testing.T) {
	checked, want := 0, 0
	for file, p := range programs(t) {
		words := p.Words()
		n, err := neon.CheckWords(words)
		if err != nil {
			t.Fatal(err)
		}
		checked, want = checked+n, want+len(words)
		expanded := expand(t, p.file())
		if !slices.EqualFunc(expanded, words, func(code uint32, w neon.Word) bool {
			return code == w.Code
		}) {
			t.Errorf("%s: macros are not the words of their %d instructions", file, len(words))
		}
	}
	switch {
	case want == 0:
		t.Error("the assembly has no instruction that is a macro")
	case checked == 0 && os.Getenv("ATTN_TEST_TOOLS") == "required":
		t.Error("no disassembler: llvm-mc must be installed")
	case checked == 0:
		t.Log("llvm-mc is not installed: the words were not compared with their texts")
	case checked != want:
		t.Errorf("%d of %d words were compared", checked, want)
	}
}

// reserved are the registers that assembly functions must leave alone: R18
// (platform), R27 (assembler), R28 (g), R29 (frame) and R30 (link), as Go's
// assembler and as Arm names them. That texts tell the truth about the words is TestEncoding's
// business.
var reserved = regexp.MustCompile(`\b(?:[RxwXW](?:18|27|28|29|30)|g|LR|lr|R18_PLATFORM)\b`)

func TestReservedRegisters(t *testing.T) {
	for _, c := range []struct {
		line string
		bad  bool
	}{
		{"ADD R18, R1, R2", true}, {"MOVD 8(R27), R3", true}, {"MOVD g, R3", true},
		{"ldr q0, [x1, x30]", true},
		{"VFMLA V18.S4, V27.S4, V30.S4", false}, {"FMOVQ 0(R1), F28", false}, {"FMOVS F29, 4(R2)", false},
		{"ADD $18, R1, R2", false},
	} {
		if reserved.MatchString(c.line) != c.bad {
			t.Errorf("%q: reserved is %v, want %v", c.line, !c.bad, c.bad)
		}
	}
	for file, p := range programs(t) {
		lines := slices.DeleteFunc(strings.Split(string(p.Bytes()), "\n"), func(line string) bool {
			return !strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "\t//")
		})
		for _, w := range p.Words() {
			lines = append(lines, w.Text)
		}
		for _, line := range lines {
			if reserved.MatchString(line) {
				t.Errorf("%s uses a reserved register: %s", file, line)
			}
		}
	}
}
