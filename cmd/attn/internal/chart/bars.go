package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Group is the bars of one colour: per cents of the limit, by case, or Busy.
type Group struct {
	Name    string
	Percent map[string]float64
}

// Busy replaces a per cent if the limit is not known. It is drawn as the word busy.
const Busy = -1

// Colours that people with any kind of colour vision can tell apart (Okabe and Ito).
var barColours = []color.Color{
	color.NRGBA{0, 114, 178, 255},
	color.NRGBA{86, 180, 233, 255},
	color.NRGBA{230, 159, 0, 255},
	color.NRGBA{240, 208, 130, 255},
	color.NRGBA{0, 158, 115, 255},
	color.NRGBA{204, 121, 167, 255},
}

// limitName is the longest entry of the legend.
const limitName = "limit: FMA peak of each with its own vectors, or DRAM read bandwidth for decode"

// DrawBars writes a chart with a bar for each case and group that has one, and the limit at
// 100 %, as one picture.
func DrawBars(w io.Writer, format Format, title string, cases []string, groups []Group) error {
	const bar, gap, height = 20, 16, 340 // points
	slot := float64(len(groups)*bar + gap)
	p := plot.New()
	p.Y.Label.Text = "% of the limit"
	p.Y.Min, p.Y.Max = 0, 100
	p.X.Min, p.X.Max = -0.5, float64(len(cases))-0.5
	p.X.Padding, p.Y.Padding = 0, 0
	p.NominalX(cases...)
	p.X.Tick.Label.Rotation = math.Pi / 6
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YTop
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(2)

	limit := plotter.NewFunction(func(float64) float64 { return 100 })
	limit.Width, limit.Color = vg.Points(1.5), color.NRGBA{200, 30, 30, 255}
	limit.XMin, limit.XMax = p.X.Min, p.X.Max
	limit.Samples = 2

	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{225}
	p.Add(grid)
	for i, g := range groups {
		offset := (float64(i) - float64(len(groups)-1)/2) * bar
		if err := addBars(p, cases, g, barColours[i%len(barColours)], bar, offset); err != nil {
			return err
		}
	}
	p.Add(limit)
	p.Legend.Add(limitName, limit)
	p.Y.Max = math.Max(105, p.Y.Max+5)
	p.Y.Tick.Marker = percentTicks(p.Y.Max)

	width := vg.Points(slot*float64(len(cases)) + 90)
	legend := vg.Points(18*float64(len(groups)+1) + 28)
	page := format.canvas(max(width, p.Legend.TextStyle.Width(limitName)+vg.Points(90)),
		vg.Points(height)+legend)
	canvas := draw.Crop(draw.New(page), vg.Points(8), -vg.Points(12), vg.Points(8), -vg.Points(8))
	drawWithLegend(p, title, canvas, legend)
	_, err := page.WriteTo(w)
	return err
}

// drawWithLegend puts title and legend above the bars, where they hide none.
func drawWithLegend(p *plot.Plot, title string, c draw.Canvas, height vg.Length) {
	legend, style := p.Legend, p.Title.TextStyle
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(c, 0, 0, 0, -height))
	style.XAlign, style.YAlign = text.XLeft, text.YTop
	c.FillText(style, vg.Point{X: c.Min.X + vg.Points(40), Y: c.Max.Y}, title)
	legend.Left, legend.YOffs = true, -vg.Points(24)
	legend.Draw(draw.Crop(c, vg.Points(40), 0, c.Max.Y-c.Min.Y-height, 0))
}

// percentTicks is every 20 per cent, or fewer if there are too many.
func percentTicks(top float64) plot.Ticker {
	step := 20 * math.Ceil(top/200)
	var ticks plot.ConstantTicks
	for y := 0.0; y <= top; y += step {
		ticks = append(ticks, plot.Tick{Value: y, Label: fmt.Sprint(y)})
	}
	return ticks
}

// addBars adds the bars of one group with their numbers.
func addBars(p *plot.Plot, cases []string, g Group, fill color.Color, width, offset float64) error {
	values := make(plotter.Values, len(cases))
	var numbers plotter.XYLabels
	for i, name := range cases {
		values[i] = max(0, g.Percent[name])
		if g.Percent[name] != 0 {
			numbers.XYs = append(numbers.XYs, plotter.XY{X: float64(i), Y: values[i]})
			numbers.Labels = append(numbers.Labels, percentText(g.Percent[name]))
		}
	}
	bars, err := plotter.NewBarChart(values, vg.Points(width-2))
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width, bars.Offset = fill, 0, vg.Points(offset)
	p.Add(bars)
	p.Legend.Add(g.Name, bars)
	labels, err := plotter.NewLabels(numbers)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].XAlign = text.XCenter
		labels.TextStyle[i].Font.Size = vg.Points(9)
	}
	labels.Offset = vg.Point{X: vg.Points(offset), Y: vg.Points(2)}
	p.Add(labels)
	return nil
}

// percentText is the text above a bar.
func percentText(percent float64) string {
	if percent == Busy {
		return "busy"
	}
	return fmt.Sprintf("%.0f", percent)
}
