package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// mustOpen opens a model until the test ends.
func mustOpen(t *testing.T, folder string) *embed.Model {
	t.Helper()
	m, err := embed.Open(folder, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// output is what a command prints.
func output(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := command(args, strings.NewReader(stdin), &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("%q: exit code %d, %s", args, code, &errs)
	}
	return out.String()
}

// TestClassify has the numbers of the package, for texts and for lines.
func TestClassify(t *testing.T) {
	folder := foldertest.WriteLabelled(t, "BertForSequenceClassification", "contradiction", "neutral",
		"entailment")
	m := mustOpen(t, folder)
	texts := []string{" cat", "un, \u0085\x7fcat!", ""}
	rows, err := m.Classify(texts)
	if err != nil {
		t.Fatal(err)
	}
	stdin := strings.Join(texts, "\r\n") + "\nlast\n"
	printed := output(t, stdin, "classify", "-model", folder, "-json", "-k", "3", "-")
	lines := strings.Split(printed, "\n")
	if len(lines) != 5 || lines[4] != "" {
		t.Fatalf("it printed %q, want 4 lines", lines)
	}
	for i, text := range texts {
		var got labelledText
		want := ranked(m.Labels(), rows[i], 3)
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil || got.Text != text ||
			!slices.Equal(got.Labels, want) || strings.ContainsAny(lines[i], "\u0085\x7f␡") {
			t.Errorf("line %d is %q, %v, want %v of %q", i+1, lines[i], err, want, text)
		}
	}
	top := ranked(m.Labels(), rows[0], 1)[0]
	if got, want := output(t, "", "classify", "-model", folder, " cat"),
		fmt.Sprintf("%8.4f  %-13s   cat\n", top.Score, top.Label); got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}

	labels := []string{"un", "zurich", "cat"}
	for _, several := range []bool{false, true} {
		scores, err := m.ZeroShot("cat un", labels, "{}, cat!", several)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, x := range ranked(labels, scores, 3) {
			want += fmt.Sprintf("%8.4f  %-6s  cat un\n", x.Score, x.Label)
		}
		got := output(t, "", "classify", "-model", folder, "-labels", "un, zurich,cat", "-hypothesis",
			"{}, cat!", fmt.Sprint("-several=", several), "cat un")
		if got != want {
			t.Errorf("several %v: it printed\n%s\nwant\n%s", several, got, want)
		}
	}
	var out, errs strings.Builder
	if code := command([]string{"classify", "-model", folder, "-labels", "a,b", "cat",
		strings.Repeat("cat ", 30)}, nil, &out, &errs); code != 0 ||
		strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), "text 2 has ") {
		t.Errorf("exit code %d, %q, want a note on text 2", code, &errs)
	}
}

// TestEntities has the entities of the package, with their places in lines as they are.
func TestEntities(t *testing.T) {
	folder := foldertest.WriteLabelled(t, "BertForTokenClassification", "B-PER", "I-PER", "LOC")
	m := mustOpen(t, folder)
	texts := []string{"  unbelievable, Zürich", "cat 中"}
	for i, name := range aggregations {
		want, table := "", ""
		all, err := m.Entities(texts, embed.Aggregation(i))
		if err != nil {
			t.Fatal(err)
		}
		for j, list := range all {
			for _, e := range list {
				table += fmt.Sprintf("%8.4f  %-5s  %d:%d-%d  %s\n", e.Score, e.Label, j+1, e.Start, e.End,
					texts[j][e.Start:e.End])
				want += fmt.Sprintln(j, e.Start, e.End, e.Label, e.Score, texts[j][e.Start:e.End])
			}
		}
		args := []string{"entities", "-model", folder, "-aggregation", name, "-"}
		if got := output(t, strings.Join(texts, "\n"), args...); got != table || table == "" {
			t.Errorf("%s: it printed\n%s\nwant\n%s", name, got, table)
		}
		got := ""
		for j, line := range strings.Split(strings.TrimSpace(output(t, "", "entities", "-json", "-model",
			folder, "-aggregation", name, texts[0], texts[1])), "\n") {
			var x struct {
				Text     string
				Entities []part
			}
			if err := json.Unmarshal([]byte(line), &x); err != nil || x.Text != texts[j] {
				t.Fatalf("%v in %s", err, line)
			}
			for _, e := range x.Entities {
				got += fmt.Sprintln(j, e.Start, e.End, e.Label, e.Score, e.Text)
			}
		}
		if got != want {
			t.Errorf("%s: JSON has\n%s\nwant\n%s", name, got, want)
		}
	}
	outside := foldertest.WriteLabelled(t, "BertForTokenClassification", "O")
	if got := output(t, "", "entities", "-model", outside, "-json", "cat"); got !=
		`{"text":"cat","entities":[]}`+"\n" {
		t.Errorf("no entities: %q", got)
	}
}

// TestLabelsRefused names what does not fit, and prints nothing.
func TestLabelsRefused(t *testing.T) {
	classes := foldertest.WriteLabelled(t, "BertForSequenceClassification", "good", "bad")
	tokens := foldertest.WriteLabelled(t, "BertForTokenClassification", "O")
	for _, c := range []struct {
		args, want string
		status     int
	}{
		{"classify cat", "-model is not there, want the folder of a model", 2},
		{"classify -model C", "there are no texts, want them as arguments, or - for", 2},
		{"classify -model C -", "the standard input has no texts", 1},
		{"classify -model C - x", "- is there among the texts", 1},
		{"classify -model C cat -k 2", `the text "-k" begins with -, want flags before texts`, 2},
		{"classify -model C -k 0 cat", "-k is 0, want 1 or more", 2},
		{"classify -model C -several cat", "-several is there without -labels, want both or none", 2},
		{"classify -model C -hypothesis {} cat", "-hypothesis is there without -labels", 2},
		{"classify -model C -labels a,,b cat", "want labels, separated by commas", 2},
		{"classify -model C -labels a,b cat", "no label of [\"good\" \"bad\"] begins with entail", 1},
		{"classify -model C -labels a -hypothesis x cat", `the hypothesis is "x" with 0 times {}`, 1},
		{"classify -model T cat", "or a model whose class ends in ForSequenceClassification", 1},
		{"classify -model C -bogus cat", "flag provided but not defined: -bogus", 2},
		{"entities -model T -aggregation most cat", "want one of none, simple, first, average, max", 2},
		{"entities -model C cat", "which labels no tokens, want a model whose class ends in", 1},
		{"entities -model T -k 2 cat", "flag provided but not defined: -k", 2},
		{"entities -model T -workers 0 cat", "-workers is 0, want 1 to 4096", 2},
		{"-model C classify cat", "classify comes after", 2},
	} {
		args := strings.Fields(c.args)
		for i, arg := range args {
			if folder := map[string]string{"C": classes, "T": tokens}[arg]; folder != "" {
				args[i] = folder
			}
		}
		var out, errs strings.Builder
		code := command(args, strings.NewReader("\n"), &out, &errs)
		if code != c.status || !strings.Contains(errs.String(), c.want) || out.Len() > 0 ||
			strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, printed %q, want %d and %q", c.args, code, &errs, &out, c.status,
				c.want)
		}
	}
	for _, name := range []string{"classify", "entities"} {
		if got := output(t, "", name, "-h"); !strings.Contains(got, "-json") ||
			!strings.Contains(got, "attn-embed "+name+" -model FOLDER") {
			t.Errorf("%s -h printed %s", name, got)
		}
	}
}
