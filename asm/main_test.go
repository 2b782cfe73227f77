package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/asm/internal/neon"
	"github.com/seed-1415985d/attn/internal/constants"
	"github.com/seed-1415985d/attn/internal/generate"
)

// readGenerated is the text of all generated files.
func readGenerated(t *testing.T) (all []byte) {
	for file := range families {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}

// The committed assembly is what the generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for file, emit := range families {
		text, err := assembly("..", emit)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("..", file)
		if err := generate.Current(path, text); err != nil {
			t.Error(err)
		}
		if err := generate.Greppable(text, "."); err != nil {
			t.Error(err)
		}
		if err := generate.Twins(text, filepath.Dir(path)); err != nil {
			t.Error(err)
		}
	}
}

// The sizes that the generator repeats are those of the package.
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

// TestEncoding compares every WORD with an independent disassembler.
func TestEncoding(t *testing.T) {
	text := readGenerated(t)
	checked, err := neon.CheckWords(text)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Count(text, []byte("WORD"))
	switch {
	case want == 0:
		t.Error("the assembly has no WORD")
	case checked == 0 && os.Getenv("ATTN_TEST_TOOLS") == "required":
		t.Error("no disassembler: llvm-mc must be installed")
	case checked == 0:
		t.Log("llvm-mc is not installed: the words were not compared with their comments")
	case checked != want:
		t.Errorf("%d of %d words were compared", checked, want)
	}
}

// reserved are the registers that assembly functions must leave alone: R18
// (platform), R27 (assembler), R28 (g), R29 (frame) and R30 (link), as Go's
// assembler and as Arm names them. That the comments tell the truth about the
// words is TestEncoding's business.
var reserved = regexp.MustCompile(`\b(?:[RxwXW](?:18|27|28|29|30)|g|LR|lr|R18_PLATFORM)\b`)

func TestReservedRegisters(t *testing.T) {
	for _, c := range []struct {
		line string
		bad  bool
	}{
		{"ADD R18, R1, R2", true}, {"MOVD 8(R27), R3", true}, {"MOVD g, R3", true},
		{"WORD $0x0 // ldr q0, [x1, x30]", true},
		{"VFMLA V18.S4, V27.S4, V30.S4", false}, {"FMOVQ 0(R1), F28", false}, {"FMOVS F29, 4(R2)", false},
		{"ADD $18, R1, R2", false},
	} {
		if reserved.MatchString(c.line) != c.bad {
			t.Errorf("%q: reserved is %v, want %v", c.line, !c.bad, c.bad)
		}
	}
	for i, line := range strings.Split(string(readGenerated(t)), "\n") {
		if strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "\t//") &&
			reserved.MatchString(line) {
			t.Errorf("line %d uses a reserved register: %s", i+1, line)
		}
	}
}
