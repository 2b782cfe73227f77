package chart

import (
	"fmt"
	"strings"
	"sync"
	"unicode"

	"codeberg.org/go-fonts/dejavu/dejavusans"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
)

// Missing is a character of a label that a picture cannot show.
type Missing struct {
	Character rune
	Label     string // the first label with it
}

// Missing returns the characters that drawn labels lose, each once.
func (h *Heatmap) Missing(format Format) []Missing {
	l := newLettering(format, h.drawn())
	var all []Missing
	seen := map[rune]bool{}
	for _, label := range h.drawn() {
		for _, r := range label {
			lost := l.letter(r) != r || r == unicode.ReplacementChar
			if lost && !seen[r] {
				all = append(all, Missing{r, label})
			}
			seen[r] = seen[r] || lost
		}
	}
	return all
}

// The replacements for a character that the font lacks, and for invalid characters.
const (
	noGlyph     = '□'
	noCharacter = unicode.ReplacementChar
)

// wideFont has several thousand characters, including those that tokenizers use for spaces and
// bytes.
var wideFont = font.Font{Typeface: "DejaVu", Variant: "Sans"}

var addWideFont = sync.OnceFunc(func() {
	parsed, err := opentype.Parse(dejavusans.TTF)
	if err != nil {
		panic(err) // it is a constant
	}
	font.DefaultCache.Add(font.Collection{{Font: wideFont, Face: parsed}})
})

// lettering says how labels are drawn.
type lettering struct {
	format Format
	font   font.Font
	face   font.Face
}

// newLettering chooses the library's own font if it has all characters of the labels.
func newLettering(format Format, labels []string) lettering {
	own := lettering{format, plot.DefaultFont, font.DefaultCache.Lookup(plot.DefaultFont, 0)}
	for _, s := range labels {
		for _, r := range s {
			if own.lacks(character(r)) {
				addWideFont()
				return lettering{format, wideFont, font.DefaultCache.Lookup(wideFont, 0)}
			}
		}
	}
	return own
}

// write returns a label as it is drawn.
func (l *lettering) write(label string) string { return strings.Map(l.letter, label) }

// letter returns the drawn form of a character: the library leaves characters that the font lacks
// blank, while viewers of SVG files use other fonts for them.
func (l *lettering) letter(r rune) rune {
	r = character(r)
	if l.format != SVG && l.lacks(r) {
		return noGlyph
	}
	return r
}

func (l *lettering) lacks(r rune) bool {
	glyph, err := l.face.Face.GlyphIndex(nil, r)
	return err != nil || glyph == 0
}

// character replaces invisible characters, and characters that XML, and so SVG, does not allow.
func character(r rune) rune {
	if unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF {
		return noCharacter
	}
	return r
}

// ticks returns the ticks of both axes, with labels and numbers as write returns them.
func (h *Heatmap) ticks(write func(string) string) (keys, queries plot.ConstantTicks) {
	c, most := &h.Maps[0].Cells, 12
	if h.Labels != nil {
		most = 50
	}
	keys = tokenTicks(c.Cols, most, 1, func(j int) string { return write(h.label(j, j)) })
	queries = tokenTicks(c.Rows, most, -1, func(i int) string { return write(h.label(i+h.At, i)) })
	return keys, queries
}

// drawn returns the labels with a tick, as the caller wrote them.
func (h *Heatmap) drawn() (labels []string) {
	keys, queries := h.ticks(func(s string) string { return s })
	for _, t := range append(keys, queries...) {
		if h.Labels != nil {
			labels = append(labels, t.Label)
		}
	}
	return labels
}

// label returns the token at a position, or the number if there is none.
func (h *Heatmap) label(at, number int) string {
	if at < 0 || at >= len(h.Labels) {
		return fmt.Sprint(number)
	}
	return clip(h.Labels[at])
}

// clip shortens long tokens.
func clip(s string) string {
	if r := []rune(s); len(r) > 16 {
		return string(r[:15]) + "…"
	}
	return s
}
