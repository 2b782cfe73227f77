package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours that people with any kind of colour vision can tell apart (Okabe and Ito), attn's first.
var colours = []color.Color{
	color.NRGBA{0, 114, 178, 255},
	color.NRGBA{230, 159, 0, 255},
	color.NRGBA{213, 94, 0, 255},
	color.NRGBA{0, 158, 115, 255},
	color.NRGBA{140, 200, 170, 255},
	color.NRGBA{204, 121, 167, 255},
	color.NRGBA{130, 130, 130, 255},
	color.NRGBA{200, 200, 200, 255},
	color.NRGBA{86, 180, 233, 255},
}

// pictured are the groups of the picture: of each the first mostPictured cases that several peers
// have. Cases of whole models are side by side, one for each type of weights, since peers differ in
// which of them they multiply fast.
var pictured = []picturedGroup{
	{"prefill, causal\n2048 tokens", []string{"prefill_d128_causal"}},
	{"encoder\n8 × 128 tokens", []string{"bert"}},
	{"decode\n32 heads", []string{"decode"}},
	{"decode\n32 heads over 8", []string{"decode_gqa"}},
	{"whole model, 512 tokens\nQ4_K_M, Q8_0, Q4_0", []string{"model 0.5b, q4_k_m, 512 tokens",
		"model 0.5b, q8_0, 512 tokens", "model 0.5b, q4_0, 512 tokens"}},
	{"a token after 4096\nQ4_K_M, Q8_0, Q4_0", []string{"model 0.5b, q4_k_m, a token after 4096",
		"model 0.5b, q8_0, a token after 4096", "model 0.5b, q4_0, a token after 4096"}},
	{"prefill\n2048 tokens", []string{"prefill_d128"}},
	{"4-bit weights\n1 row", []string{"matrix, q4_0, 1 row"}},
}

type picturedGroup struct {
	words string
	cases []string
}

// isPictured reports whether a case is in a group.
func isPictured(name string) bool {
	return slices.ContainsFunc(pictured, func(g picturedGroup) bool {
		return slices.Contains(g.cases, name)
	})
}

const mostPictured = 6

// The picture is as wide as GitHub shows it in a README, 880 pixels, with letters of 12 pixels,
// which are 9 points.
const (
	pictureWidth, pictureHeight = 660, 260 // points
	letters                     = 9
	barWidth                    = 9.5
)

// draw writes a picture in the format of the file's name: for each case a bar for each peer, as a
// share of the limit, on one thread.
func (r *Report) draw(file string) error {
	page, err := draw.NewFormattedCanvas(vg.Points(pictureWidth), vg.Points(pictureHeight),
		filepath.Ext(file)[1:])
	if err != nil {
		return err
	}
	canvas := draw.New(page)
	canvas.SetColor(color.White) // viewers fill unpainted areas with a colour of their own
	canvas.Fill(canvas.Rectangle.Path())
	r = r.withElsewhere()
	p, err := r.panel(r.threads()[0])
	if err != nil {
		return err
	}
	below := r.legend(draw.Crop(canvas, vg.Points(8), -vg.Points(8), 0, -vg.Points(8)), p)
	p.Draw(draw.Crop(canvas, vg.Points(6), -vg.Points(6), vg.Points(4), -below-vg.Points(14)))
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := page.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// withElsewhere adds pictured cases of other machines, each from the newest machine that measured
// it, and the peers of all machines.
func (r *Report) withElsewhere() *Report {
	all := &Report{Results: r.Results, Peers: r.present()}
	shown := filter(cases, func(c Case) bool { return isPictured(c.Name) })
	for _, x := range r.Elsewhere {
		x = x.unseen([]*Report{all})
		for _, p := range x.measuredPeers(shown) {
			if !slices.ContainsFunc(all.Peers, func(o PeerInfo) bool { return o.Name == p.Name }) {
				all.Peers = append(all.Peers, p)
			}
		}
		all.Results = slices.Concat(all.Results, filter(x.Results, func(y Result) bool {
			return slices.ContainsFunc(shown, func(c Case) bool { return c.Name == y.Case })
		}))
	}
	return all
}

// style returns the style of the letters.
func style(p *plot.Plot) draw.TextStyle {
	s := p.Legend.TextStyle
	s.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(letters))
	return s
}

// legend writes lines with all peers, and returns how high they are.
func (r *Report) legend(c draw.Canvas, p *plot.Plot) vg.Length {
	const line = 15
	s := style(p)
	s.YAlign = text.YCenter
	at := vg.Point{X: c.Min.X, Y: c.Max.Y - line/2}
	for i, info := range r.present() {
		width := 13 + s.Width(info.Name) + 14
		if at.X+width > c.Max.X {
			at = vg.Point{X: c.Min.X, Y: at.Y - line}
		}
		square := vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - 4},
			Max: vg.Point{X: at.X + 9, Y: at.Y + 5}}
		c.SetColor(colours[i%len(colours)])
		c.Fill(square.Path())
		c.FillText(s, vg.Point{X: at.X + 13, Y: at.Y}, info.Name)
		at.X += width
	}
	return c.Max.Y - at.Y + line/2
}

// panel draws a group of bars for each case that several peers have.
func (r *Report) panel(threads int) (*plot.Plot, error) {
	p := plot.New()
	s := style(p)
	p.Y.Label.Text = fmt.Sprintf("%% of the limit, %s", count(threads, "thread"))
	p.Y.Label.TextStyle.Font, p.Y.Tick.Label.Font, p.X.Tick.Label.Font = s.Font, s.Font, s.Font
	p.X.Padding, p.Y.Padding = 0, 0
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{225}
	p.Add(grid)
	var names []string
	for _, g := range pictured {
		shown := filter(g.cases, func(name string) bool {
			n := len(r.having(name, threads))
			return n > 1 || n == 1 && len(r.present()) == 1
		})
		if len(shown) == 0 || len(names) == mostPictured {
			continue
		}
		if err := r.group(p, shown, threads, len(names), s); err != nil {
			return nil, err
		}
		names = append(names, g.words)
	}
	if len(names) == 0 {
		names = []string{"none of the cases that are pictured was measured"}
	}
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	p.NominalX(names...)
	p.X.Tick.Label.YAlign = text.YTop
	p.Y.Min, p.Y.Max = 0, math.Max(100, p.Y.Max)
	return p, nil
}

// having returns the indices of the peers that have a case.
func (r *Report) having(name string, threads int) (places []int) {
	for i, info := range r.present() {
		if r.result(name, info.Name, threads) != nil {
			places = append(places, i)
		}
	}
	return places
}

// gap is between the cases of a group, in bars.
const gap = 0.8

// group draws the bars of cases side by side.
func (r *Report) group(p *plot.Plot, of []string, threads, at int, s draw.TextStyle) error {
	width := gap * float64(len(of)-1)
	for _, name := range of {
		width += float64(len(r.having(name, threads)))
	}
	left := -(width - 1) / 2
	for _, name := range of {
		for _, i := range r.having(name, threads) {
			if err := r.bar(p, name, threads, i, float64(at), vg.Points(left*barWidth), s); err != nil {
				return err
			}
			left++
		}
		left += gap
	}
	return nil
}

// bar draws the share of a case's limit that a peer reached, with the number above the bar for
// attn.
func (r *Report) bar(p *plot.Plot, name string, threads, place int, at float64, offset vg.Length,
	s draw.TextStyle) error {
	x := r.result(name, r.present()[place].Name, threads)
	percent := 100 * x.Limit / x.Best
	bars, err := plotter.NewBarChart(plotter.Values{percent}, vg.Points(barWidth-1))
	if err != nil {
		return err
	}
	bars.XMin, bars.Color, bars.LineStyle.Width = at, colours[place%len(colours)], 0
	bars.Offset = offset
	p.Add(bars)
	if place > 0 {
		return nil
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: at, Y: percent}},
		Labels: []string{fmt.Sprintf("%.0f", percent)}})
	if err != nil {
		return err
	}
	labels.TextStyle[0] = s
	labels.TextStyle[0].XAlign = text.XCenter
	labels.Offset = vg.Point{X: offset, Y: vg.Points(2)}
	p.Add(labels)
	return nil
}

// wrap breaks a line of prose at the width of documents.
func wrap(line string) string {
	const most = 100
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(line) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case width+1+n > most && strings.HasPrefix(line, "- "):
			b.WriteString("\n  ")
			width = 2
		case width+1+n > most:
			b.WriteString("\n")
			width = 0
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
