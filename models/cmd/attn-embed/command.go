package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unicode"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/progress"
	"github.com/seed-1415985d/attn/models/embed"
)

// streams are what a command reads and writes.
type streams struct {
	in        io.Reader
	out, errs io.Writer
	bar       io.Writer // the standard error as it is, whose bar is drawn again and again
}

// commands are what the first argument may name, besides the flags and texts of similarities.
var commands = map[string]func(args []string, s *streams) error{"images": images,
	"classify": classify, "entities": entities}

// modelFlags are of all commands.
type modelFlags struct {
	*flag.FlagSet
	embed.Options
	path string
	json bool
	bar  *progress.Bar // of the calls of a model; nil for none
}

func newModelFlags(help, models string) *modelFlags {
	f := &modelFlags{FlagSet: flags.New(help)}
	f.StringVar(&f.path, "model", "", "`folder` of a model: "+models)
	f.IntVar(&f.Workers, "workers", runtime.GOMAXPROCS(0), "`number` of threads")
	f.BoolVar(&f.Integers, "integers", false, "multiply in 8-bit integers")
	f.BoolVar(&f.json, "json", false, "print JSON")
	return f
}

// check refuses flags without the model.
func (f *modelFlags) check() error {
	if f.path == "" {
		return flags.Errorf("-model is not there, want the folder of a model")
	}
	return checkWorkers(f.Workers)
}

func checkWorkers(n int) error {
	if n < 1 || n > attn.MaxWorkers {
		return flags.Errorf("-workers is %d, want 1 to %d", n, attn.MaxWorkers)
	}
	return nil
}

// given reports whether a flag is on the command line.
func (f *modelFlags) given(name string) (is bool) {
	f.Visit(func(g *flag.Flag) { is = is || g.Name == name })
	return is
}

// parseTexts reads flags and the texts after them.
func (f *modelFlags) parseTexts(args []string, s *streams) ([]string, error) {
	if err := flags.Parse(f.FlagSet, args, s.out); err != nil {
		return nil, err
	}
	literal, err := flags.Texts("text", args, f.Args())
	if err == nil {
		err = f.check()
	}
	if err == nil && f.NArg() == 0 {
		err = flags.Errorf("there are no texts, want them as arguments, or - for the lines of the " +
			"standard input")
	}
	if err != nil {
		return nil, err
	}
	return inputs(f.Args(), literal, s.in)
}

// parsePaths reads flags and paths, which may stand before them. What follows -- is paths.
func (f *modelFlags) parsePaths(args []string, help io.Writer) (paths []string, err error) {
	for len(args) > 0 {
		if err := flags.Parse(f.FlagSet, args, help); err != nil {
			return nil, err
		}
		rest := f.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			return append(paths, rest...), f.check()
		}
		if args = rest; len(rest) > 0 {
			paths, args = append(paths, rest[0]), rest[1:]
		}
	}
	return paths, f.check()
}

// open opens the model, whose calls move the bar, if there is one.
func (f *modelFlags) open() (*embed.Model, error) {
	o := f.Options
	o.Progress = func(done, _ int) {
		if f.bar != nil {
			f.bar.Reach(done)
		}
	}
	return embed.Open(f.path, o)
}

// score is a label with its score.
type score struct {
	Label string  `json:"label"`
	Score float32 `json:"score"`
}

// ranked returns the labels with the largest scores, most of them.
func ranked(labels []string, scores []float32, most int) []score {
	at := make([]int32, min(most, len(scores)))
	attn.TopK(at, scores)
	all := make([]score, len(at))
	for i, j := range at {
		all[i] = score{labels[j], scores[j]}
	}
	return all
}

// widest is the number of characters of the longest label.
func widest(labels []string) (n int) {
	for _, label := range labels {
		n = max(n, len([]rune(label)))
	}
	return n
}

// short is the beginning of a text, in one line.
func short(text string) string {
	const most = 60
	runes := []rune(text[:min(len(text), 4*most+4)])
	for i, r := range runes {
		if unicode.IsSpace(r) {
			runes[i] = ' '
		}
	}
	if len(runes) > most {
		runes = append(runes[:most-1], '…')
	}
	return string(runes)
}

// printJSON writes a value in a line. Control characters are escaped, which JSON allows: what
// terminals would obey is not written as it is, and stays what it was.
func printJSON(w io.Writer, value any) error {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	var line strings.Builder
	for _, r := range text.String() {
		if r != '\n' && unicode.IsControl(r) {
			fmt.Fprintf(&line, `\u%04x`, r)
		} else {
			line.WriteRune(r)
		}
	}
	_, err := io.WriteString(w, line.String())
	return err
}
