package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
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
	color.NRGBA{150, 150, 150, 255},
	color.NRGBA{200, 200, 200, 255},
}

// draw writes a picture in the format that the file's name promises: a panel for each number of
// threads.
func (r *Report) draw(file string) error {
	const bar, gap, height = 8, 14, 230 // points
	counts, peers := r.threads(), r.present()
	cases := r.measured(counts[0], 2)
	width := vg.Points(max(640, float64((bar*len(peers)+gap)*len(cases)+70))) // room for the legend
	page, err := draw.NewFormattedCanvas(width, vg.Points(float64(height*len(counts)+30)),
		filepath.Ext(file)[1:])
	if err != nil {
		return err
	}
	canvas := draw.New(page)
	canvas.SetColor(color.White) // what is not painted, viewers show in a colour of theirs
	canvas.Fill(canvas.Rectangle.Path())
	for i, threads := range counts {
		p, err := r.panel(threads, cases, peers, bar)
		if err != nil {
			return err
		}
		if i == 0 {
			p.Title.Text = r.CPU
			r.legend(canvas, p, peers)
		}
		top := vg.Points(float64(30 + i*height))
		p.Draw(draw.Crop(canvas, vg.Points(6), -vg.Points(6),
			vg.Points(float64((len(counts)-1-i)*height)), -top))
	}
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

// legend is one line above all panels.
func (r *Report) legend(c draw.Canvas, p *plot.Plot, peers []PeerInfo) {
	style := p.Legend.TextStyle
	style.YAlign = text.YCenter
	at := vg.Point{X: c.Min.X + vg.Points(50), Y: c.Max.Y - vg.Points(15)}
	for i, peer := range peers {
		square := vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - 4},
			Max: vg.Point{X: at.X + 9, Y: at.Y + 5}}
		c.SetColor(colours[i%len(colours)])
		c.Fill(square.Path())
		at.X += 13
		c.FillText(style, at, peer.Name)
		at.X += style.Width(peer.Name) + 16
	}
}

// panel draws a group of bars for each case, one for each peer, as shares of the limit.
func (r *Report) panel(threads int, cases []Case, peers []PeerInfo, bar float64) (*plot.Plot,
	error) {
	p := plot.New()
	p.Y.Label.Text = fmt.Sprintf("%% of the limit, %s", count(threads, "thread"))
	p.X.Min, p.X.Max = -0.5, float64(len(cases))-0.5
	p.X.Padding, p.Y.Padding = 0, 0
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{225}
	p.Add(grid)
	names := make([]string, len(cases))
	for i, peer := range peers {
		values := make(plotter.Values, len(cases))
		for j, c := range cases {
			names[j] = strings.Replace(c.Name, ", ", "\n", 1)
			if x := r.result(c.Name, peer.Name, threads); x != nil {
				values[j] = 100 * x.Limit / x.Best
			}
		}
		bars, err := plotter.NewBarChart(values, vg.Points(bar-1))
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = colours[i%len(colours)], 0
		bars.Offset = vg.Points((float64(i) - float64(len(peers)-1)/2) * bar)
		p.Add(bars)
	}
	p.NominalX(names...)
	p.X.Tick.Label.Font.Size = vg.Points(8)
	p.Y.Min, p.Y.Max = 0, math.Max(100, p.Y.Max)
	return p, nil
}
