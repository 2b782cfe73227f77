package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/progress"
	"github.com/seed-1415985d/attn/models/embed"
)

const classifyAbout = `attn-embed classify -model FOLDER [flags] TEXT... | -

Prints the label of each text, or of each line of the standard input. With -labels a model of
natural language inference scores any labels. What follows -- is texts.

`

// classifyFlags are of attn-embed classify.
type classifyFlags struct {
	*modelFlags
	labels     []string // nil for those of the model
	hypothesis string
	several    bool
	most       int
	notices    *notices
}

func parseClassify(args []string, s *streams) (f *classifyFlags, texts []string, err error) {
	f = &classifyFlags{modelFlags: newModelFlags(classifyAbout, "…ForSequenceClassification"),
		notices: &notices{to: s.errs}}
	f.Func("labels", "`labels` for texts, separated by commas (default the model's)", f.setLabels)
	f.StringVar(&f.hypothesis, "hypothesis", "This example is {}.", "`text` that -labels are put in, "+
		"at {}")
	f.BoolVar(&f.several, "several", false, "score each of -labels alone: several may be right")
	f.IntVar(&f.most, "k", 1, "most `labels` of a text (default 1, of -labels all)")
	f.Lookup("k").DefValue = "0" // which help does not print
	if texts, err = f.parseTexts(args, s); err != nil {
		return f, nil, err
	}
	for _, name := range []string{"hypothesis", "several"} {
		if f.given(name) && f.labels == nil {
			return f, nil, flags.Errorf("-%s is there without -labels, want both or none", name)
		}
	}
	if f.most < 1 {
		return f, nil, flags.Errorf("-k is %d, want 1 or more", f.most)
	}
	if !f.given("k") && f.labels != nil {
		f.most = len(f.labels)
	}
	return f, texts, nil
}

func (f *classifyFlags) setLabels(text string) error {
	f.labels = strings.Split(text, ",")
	for i, label := range f.labels {
		if f.labels[i] = strings.TrimSpace(label); f.labels[i] == "" {
			return errors.New("want labels, separated by commas")
		}
	}
	return nil
}

// labelledText is a text with its labels.
type labelledText struct {
	Text   string  `json:"text"`
	Labels []score `json:"labels"`
}

func classify(args []string, s *streams) error {
	f, texts, err := parseClassify(args, s)
	if err != nil {
		return err
	}
	f.Cut = f.notices.cut
	at := 0 // the text that -labels are scored for
	if f.labels != nil {
		f.Cut = func(_, tokens, left int) { f.notices.cutOnce(at, tokens, left) }
	}
	m, err := f.open()
	if err != nil {
		return err
	}
	defer m.Close()
	bar := progress.New(s.bar, "texts", len(texts))
	defer bar.Finish()
	names, rows := m.Labels(), [][]float32(nil)
	if f.labels == nil {
		f.bar = bar
		rows, err = m.Classify(texts)
	} else {
		names = f.labels
		rows, err = f.zeroShot(m, texts, &at, bar)
	}
	if bar.Finish(); err != nil {
		return err
	}
	for i, text := range texts {
		if err := f.print(s.out, labelledText{text, ranked(names, rows[i], f.most)}, names); err != nil {
			return err
		}
	}
	return nil
}

// zeroShot returns scores of -labels for each text. at is the text that is being scored.
func (f *classifyFlags) zeroShot(m *embed.Model, texts []string, at *int,
	bar *progress.Bar) ([][]float32, error) {
	rows := make([][]float32, len(texts))
	for i, text := range texts {
		*at = i
		var err error
		if rows[i], err = m.ZeroShot(text, f.labels, f.hypothesis, f.several); err != nil {
			return nil, err
		}
		bar.Add(1)
	}
	return rows, nil
}

func (f *classifyFlags) print(w io.Writer, text labelledText, names []string) error {
	if f.json {
		return printJSON(w, text)
	}
	for _, x := range text.Labels {
		if _, err := fmt.Fprintf(w, "%8.4f  %-*s  %s\n", x.Score, widest(names), x.Label,
			short(text.Text)); err != nil {
			return err
		}
	}
	return nil
}

const entitiesAbout = `attn-embed entities -model FOLDER [flags] TEXT... | -

Prints the labelled parts of each text, or of each line of the standard input: score, label, number
of the text with the first byte and the byte after the last, part. What follows -- is texts.

`

// aggregations are the values of -aggregation, as transformers has them.
var aggregations = []string{"none", "simple", "first", "average", "max"}

// part is a part of a text with a label.
type part struct {
	score
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

func entities(args []string, s *streams) error {
	f := newModelFlags(entitiesAbout, "…ForTokenClassification")
	a := embed.Simple
	f.Func("aggregation", "`rule` by which tokens become entities: none, simple, first, average or "+
		"max, as in transformers (default simple)", func(text string) error {
		i := slices.Index(aggregations, text)
		if i < 0 {
			return fmt.Errorf("want one of %s", strings.Join(aggregations, ", "))
		}
		a = embed.Aggregation(i)
		return nil
	})
	texts, err := f.parseTexts(args, s)
	if err != nil {
		return err
	}
	m, err := f.open()
	if err != nil {
		return err
	}
	defer m.Close()
	f.bar = progress.New(s.bar, "texts", len(texts))
	all, err := m.Entities(texts, a)
	if f.bar.Finish(); err != nil {
		return err
	}
	width := widest(m.Labels())
	for i, list := range all {
		if err := f.printEntities(s.out, i, texts[i], list, width); err != nil {
			return err
		}
	}
	return nil
}

// printEntities prints the entities of a text.
func (f *modelFlags) printEntities(w io.Writer, i int, text string, list []embed.Entity,
	width int) error {
	parts := make([]part, len(list))
	for j, e := range list {
		parts[j] = part{score{e.Label, e.Score}, e.Start, e.End, text[e.Start:e.End]}
	}
	if f.json {
		return printJSON(w, struct {
			Text     string `json:"text"`
			Entities []part `json:"entities"`
		}{text, parts})
	}
	for _, p := range parts {
		if _, err := fmt.Fprintf(w, "%8.4f  %-*s  %d:%d-%d  %s\n", p.Score, width, p.Label, i+1, p.Start,
			p.End, short(p.Text)); err != nil {
			return err
		}
	}
	return nil
}
