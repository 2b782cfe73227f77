package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

func TestCommand(t *testing.T) {
	folder, _ := foldertest.WriteBERT(t, safetensors.F16)
	small := []string{"-layers", "1", "-dim", "32", "-heads", "2", "-ffn", "40", "-vocab", "100",
		"-time", "0", "-workers", "2"}
	for _, c := range []struct {
		args        []string
		input, want string
	}{
		{small, "", "Rain.\n"},
		{append(small, "-pool", "cls", "one text", "another"), "", "another\n"},
		{append(small, "-"), "line one\nline two\n", "line two\n"},
		{[]string{"-model", folder, "-time", "1ms", "cat"}, "", " 1.00   cat\n"},
		{append(small, "-integers"), "", "\ncosine with the embeddings in float32: mean 1.000"},
		{append(small, "-bfloat16"), "", "\ncosine with the embeddings in float32: mean 1.000"},
	} {
		var out, errs strings.Builder
		if err := run(c.args, strings.NewReader(c.input), &out, &errs); err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		text := out.String()
		if strings.Count(text, "  OK  ") != 4 || strings.Contains(text, "different") ||
			!strings.Contains(text, c.want) || !strings.Contains(text, "texts/s") || errs.Len() > 0 {
			t.Errorf("%q printed\n%s%s", c.args, text, &errs)
		}
	}
	for _, args := range [][]string{{"-workers", "0"}, {"-workers", "4097"}, {"-pool", "most"},
		{"-vectors", "no/such/folder/x.npy"}, {"-workers", "x"}, {"-heads", "7"},
		{"-vocab", "1"}, {"-nonsense"}, {"-integers", "-bfloat16"}} {
		if err := run(args, strings.NewReader(""), &strings.Builder{}, io.Discard); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}

// TestNotices: the standard error says which texts are longer than the model's limit.
func TestNotices(t *testing.T) {
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	long := strings.Repeat("cat ", 30)
	var out, errs strings.Builder
	code := command([]string{"-model", folder, "-time", "0", "cat", long, strings.Repeat("cat ", 18)},
		nil, &out, &errs)
	if want := "attn-embed: text 2 has 32 tokens, and the model takes 20: the last 12 of its own " +
		"are left out\n"; code != 0 || errs.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, errs.String(), want)
	}
	errs.Reset()
	args := append([]string{"-model", folder, "-time", "0"}, slices.Repeat([]string{long}, 9)...)
	if code := command(args, nil, &out, &errs); code != 0 || strings.Count(errs.String(), "\n") != 6 ||
		!strings.HasSuffix(errs.String(), "attn-embed: more texts are cut, too\n") {
		t.Errorf("exit code %d, %q, want 5 texts and then that there are more", code, errs.String())
	}
}

// TestTerminal escapes control characters in texts and in messages about files.
func TestTerminal(t *testing.T) {
	small := []string{"-layers", "1", "-dim", "32", "-heads", "2", "-ffn", "40", "-vocab", "100",
		"-time", "0"}
	var out, errs strings.Builder
	if code := command(append(small, "a\x1b[2J"), nil, &out, &errs); code != 0 ||
		strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "a␛[2J") ||
		!strings.Contains(out.String(), "The model is random") {
		t.Errorf("exit code %d, want 0\n%q\n%q", code, out.String(), errs.String())
	}
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	foldertest.Write(t, folder, "config.json", []byte(`{"model_type": "\u001b[2J"}`))
	out.Reset()
	if code := command([]string{"-modal", folder}, nil, &out, &errs); code != 2 || out.Len() > 0 ||
		strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("a wrong flag: exit code %d, printed %q and %q", code, &out, &errs)
	}
	errs.Reset()
	if code := command([]string{"-model", folder}, nil, &out, &errs); code != 1 ||
		!strings.HasPrefix(errs.String(), "attn-embed: ") || strings.Contains(errs.String(), "\x1b") {
		t.Errorf("exit code %d, want 1\n%q", code, errs.String())
	}
}

// TestWrongFlags: errors have the names of flags, not of package embed's fields.
func TestWrongFlags(t *testing.T) {
	for line, want := range map[string]string{
		"-layers 0":             "-layers is 0, want 1 to ",
		"-dim 13":               "-dim is 13, want a multiple of -heads, 12",
		"-dim 100000 -heads 1":  "-dim / -heads is 100000, want 1 to 65536",
		"-heads 0":              "-heads is 0, want 1 to ",
		"-ffn -1":               "-ffn is -1, want 1 to ",
		"-vocab 1":              "-vocab is 1, and by positions texts have at most 512 tokens, want ",
		"-dimensions -1":        "-dimensions is -1, want 0 or more",
		"-dimensions 385":       "random: -dimensions is 385, want at most 384",
		"-pool most":            `random: -pool is "most", want one or more of cls,`,
		"-prompt x":             `random: -prompt is "x", want none`,
		"-workers 0":            "-workers is 0, want 1 to 4096",
		"-time -1s":             "-time is -1s, want 0 or more",
		"-rerank q":             "-rerank without texts",
		"-model no/such/folder": `there is no folder or file "no/such/folder"`,
	} {
		status := 2
		if strings.HasPrefix(line, "-model") {
			status = 1
		}
		var out, errs strings.Builder
		code := command(strings.Fields(line), strings.NewReader(""), &out, &errs)
		if code != status || !strings.HasPrefix(errs.String(), "attn-embed: "+want) ||
			strings.Contains(errs.String(), "Sizes.") || strings.Contains(errs.String(), "Options.") ||
			out.Len() > 0 {
			t.Errorf("%s: exit status %d, printed %q and %q, want %d and %q", line, code, &out, &errs,
				status, want)
		}
	}
}

// TestVectors reads the file that the command writes.
func TestVectors(t *testing.T) {
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	path := filepath.Join(t.TempDir(), "out.npy")
	texts := []string{"cat", "cat, un!"}
	if err := run(append([]string{"-model", folder, "-time", "0", "-vectors", path}, texts...), nil,
		&strings.Builder{}, io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 2*30)
	head := data[:max(0, len(data)-4*len(got))]
	if _, err := binary.Decode(data[len(head):], binary.LittleEndian, got); err != nil ||
		!bytes.Contains(head, []byte("'descr': '<f4', 'fortran_order': False, 'shape': (2, 30), }")) {
		t.Fatalf("the file begins with %q (%v), want 2 × 30 of float32", head, err)
	}
	m, err := embed.Open(folder, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	want, err := m.Encode(texts)
	if err != nil || !slices.Equal(got, slices.Concat(want...)) {
		t.Errorf("the file has %v, want %v (%v)", got, want, err)
	}
}

// TestRerank sorts texts by their scores.
func TestRerank(t *testing.T) {
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	shapes := foldertest.TinyShapes()
	shapes["pooler.dense.weight"], shapes["pooler.dense.bias"] = []int{30, 30}, []int{30}
	shapes["classifier.weight"], shapes["classifier.bias"] = []int{1, 30}, []int{1}
	views, _ := foldertest.Tensors(t, safetensors.F32, shapes)
	foldertest.WriteTensors(t, folder, views)
	config := maps.Clone(foldertest.Tiny)
	config["architectures"] = []string{"BertForSequenceClassification"}
	config["id2label"] = map[string]string{"0": "LABEL_0"}
	foldertest.Write(t, folder, "config.json", foldertest.Encode(t, config))
	var out strings.Builder
	texts := []string{"cat", "unbelievable", "zurich, cat!", "中"}
	args := append([]string{"-model", folder, "-rerank", "cat"}, texts...)
	if err := run(args, nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	before := "9"
	for _, line := range lines {
		score, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if score > before || !slices.Contains(texts, text) {
			t.Errorf("%q comes after score %s", line, before)
		}
		before = score
	}
	if len(lines) != len(texts) {
		t.Errorf("it printed %q, want %d texts", lines, len(texts))
	}
	out.Reset()
	args = append([]string{"-rerank", "cat", "-layers", "1", "-dim", "24", "-heads", "2", "-ffn", "8",
		"-vocab", "50"}, texts...)
	if err := run(args, nil, &out, io.Discard); err != nil ||
		strings.Count(out.String(), "\n") != len(texts) {
		t.Errorf("a random cross-encoder: %q, error %v", out.String(), err)
	}
}

// TestInputs has inputs that are no texts, and flags that do not fit together.
func TestInputs(t *testing.T) {
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	path := filepath.Join(t.TempDir(), "out.npy")
	for _, c := range []struct {
		args, want string
	}{
		{"x -model " + folder, `the text "-model" begins with -, want flags before texts`},
		{"bench -foo", "bench: flag provided but not defined: -foo"},
		{"bench text", `bench: unexpected argument "text"`},
		{"-model " + folder + " bench -layers 1", "-layers is 1, of a random model, with -model"},
		{"-model " + folder + " -heads 3 x", "-heads is 3, of a random model, with -model"},
		{"bench -vectors " + path, "-vectors is there with bench, want one of both"},
		{"-rerank cat bench", "-rerank is there with bench"},
		{"-model " + folder + " -rerank cat -vectors " + path + " a",
			"-vectors is there with -rerank, which makes no embeddings, want one of both"},
		{"-model " + folder + " -rerank cat", "-rerank without texts, want the texts"},
		{"- x", `- is there among the texts ["-" "x"], want it alone`},
		{"-", "the standard input has no texts, want a line for each"},
		{"-model= x", `the path is ""`},
		{"-model sentence-transformers/all-MiniLM-L6-v2 x", "not downloaded"},
	} {
		var out strings.Builder
		err := run(strings.Fields(c.args), strings.NewReader(" \n"), &out, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
			t.Errorf("%s: error %v, want %s; it printed %q", c.args, err, c.want, &out)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s wrote a file", c.args)
		}
	}
	small := strings.Fields("-layers 1 -dim 32 -heads 2 -ffn 40 -vocab 100 -time 0 --")
	var out, errs strings.Builder
	if err := run(append(small, "bench", "-n", "-"), nil, &out, &errs); err != nil ||
		!strings.Contains(out.String(), "   bench\n") || !strings.Contains(out.String(), "   -n\n") {
		t.Errorf("texts behind --: %v, %q", err, &out)
	}
	for _, args := range [][]string{{"-h"}, {"bench", "-h"}} {
		out.Reset()
		if code := command(args, nil, &out, &errs); code != 0 || errs.Len() > 0 ||
			!strings.Contains(out.String(), "bench       how fast") ||
			!strings.Contains(out.String(), "the lines of the standard input") ||
			!strings.Contains(out.String(), "-rerank") {
			t.Errorf("%q: exit code %d, %q, %q", args, code, &out, &errs)
		}
	}
}

// TestBench prints percentiles and texts a second.
func TestBench(t *testing.T) {
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	var out, errs strings.Builder
	args := []string{"-model", folder, "-time", "1ms", "bench"}
	if code := command(args, nil, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d\n%s", code, &errs)
	}
	for _, want := range []string{"bert: 2 layers of 30, 3 heads", "opened in", "99 %", "texts/s",
		"multiply-adds allow"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it printed\n%s\nwant %q", &out, want)
		}
	}
	if code := command(append([]string{"-integers"}, args...), nil, &out, &errs); code != 0 {
		t.Errorf("-integers: exit code %d\n%s", code, &errs)
	}
	if err := run([]string{"-model", folder, "-rerank", "cat", "dog"}, nil, &out, &errs); err == nil ||
		!strings.Contains(err.Error(), "no head") {
		t.Errorf("a model without a head: %v", err)
	}
}
