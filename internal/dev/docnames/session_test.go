package docnames

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// cloneVariable names a fresh clone, in which TestSessions runs the commands of documents.
const cloneVariable = "ATTN_TEST_CLONE"

// readRules reads testdata/commands.txt.
func readRules(t *testing.T) []*rule {
	text, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := parseRules(string(text))
	if err != nil {
		t.Fatalf("testdata/commands.txt: %v", err)
	}
	return rules
}

// TestRulesAreNeeded fails for a rule that matches no command line of the documents.
func TestRulesAreNeeded(t *testing.T) {
	skipShort(t)
	rules := readRules(t)
	for _, d := range documents(t) {
		for _, s := range sessions(d.text) {
			s.script(rules)
		}
	}
	for _, r := range rules {
		if !r.used {
			t.Errorf("testdata/commands.txt: no document has %v", r.match)
		}
	}
}

// TestSessions runs the command lines of all documents in a fresh clone, which .ci/run makes, or
// their replacements in testdata/commands.txt.
func TestSessions(t *testing.T) {
	clone := os.Getenv(cloneVariable)
	if clone == "" {
		return // .ci/run commands makes one
	}
	writeInputs(t, clone)
	rules, tried := readRules(t), map[string]bool{}
	for _, d := range documents(t) {
		for _, s := range sessions(d.text) {
			if script := s.script(rules); script != "" && !tried[script] {
				tried[script] = true
				t.Run(fmt.Sprintf("%s:%d", d.name, s.line), func(t *testing.T) { typeIn(t, clone, script) })
			}
		}
	}
}

// typeIn runs a script in a folder.
func typeIn(t *testing.T, folder, script string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	shell.Dir = folder
	out, err := shell.CombinedOutput()
	t.Logf("typed:\n%s", script)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// writeInputs writes the files that command lines read.
func writeInputs(t *testing.T, folder string) {
	header := []byte("\x93NUMPY\x01\x00\x36\x00" +
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 9, 8)}")
	header[8] = byte(len(header) - 10)
	for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
		var b bytes.Buffer
		b.Write(header)
		for j := range 2 * 9 * 8 {
			binary.Write(&b, binary.LittleEndian, float32((j+i)%7)-3)
		}
		if err := os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSessionsOfADocument(t *testing.T) {
	text := "Text.\n\n    go test .    # a remark\n    A=b go run ./x -h\n" +
		"    for i in 1 2; do\n        echo $i\n    done\n\n    it prints this\n\n" +
		"    attn run \\\n        -q x\n    printed\n    attn info\n```\n    go vet\n```\n"
	var got []string
	for _, s := range sessions(text) {
		got = append(got, fmt.Sprintf("%d: %s", s.line, strings.Join(s.lines, "|")))
	}
	if want := []string{"3: go test .|A=b go run ./x -h|for i in 1 2; do|echo $i|done",
		"11: attn run -q x", "14: attn info"}; !slices.Equal(got, want) {
		t.Errorf("sessions are %q, want %q", got, want)
	}
}

func TestRules(t *testing.T) {
	rules, err := parseRules("# a comment\n\ngo (.*) all\t\tgo $1 -h\tlong\nattn x\t-\tnone\n")
	if err != nil || len(rules) != 2 {
		t.Fatalf("%d rules, error %v", len(rules), err)
	}
	s := session{1, []string{"go test all", "attn x", "attn xy"}}
	if got, want := s.script(rules), "go test -h\nattn xy\n"; got != want ||
		!rules[0].used || !rules[1].used {
		t.Errorf("the script is %q, want %q", got, want)
	}
	for text, want := range map[string]string{"a\tb": "line 1 has 2 columns", "\n(\tb\tc": "line 2:"} {
		if _, err := parseRules(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
