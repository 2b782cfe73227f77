package chart

import (
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Heat is one head's attention weights.
type Heat struct {
	Title string
	Cells Cells
}

const (
	heatSide     = 13 * vg.Centimeter // longer side of one map
	heatMargin   = 2.2 * vg.Centimeter
	barWidth     = 2.8 * vg.Centimeter // colour bar with its numbers
	legendHeight = 1.4 * vg.Centimeter
	inCells      = 14 // up to that many columns, the weights are written into the cells
)

// Heatmap is maps of equal size, drawn with one colour scale: queries from top to bottom, keys from
// left to right.
type Heatmap struct {
	Maps []Heat
	// of the keys, and of the queries, the first of which is at position At of the keys; or nil
	Labels []string
	At     int
}

// Draw writes the maps as one picture.
func (h *Heatmap) Draw(w io.Writer, format Format) error {
	top := 0.0
	for _, m := range h.Maps {
		top = math.Max(top, m.Cells.max())
	}
	if top == 0 {
		top = 1
	}
	colours, err := heatColours(math.Sqrt(top))
	if err != nil {
		return err
	}
	l := newLettering(format, h.drawn())
	var plots []*plot.Plot
	for _, m := range h.Maps {
		p, err := h.plot(m, colours, &l)
		if err != nil {
			return err
		}
		plots = append(plots, p)
	}
	grid := tile(plots)
	width, height := h.size()
	page := format.canvas(width+barWidth, height)
	canvas := draw.New(page)
	tiles := draw.Tiles{Rows: len(grid), Cols: len(grid[0]), PadX: vg.Centimeter / 2,
		PadY:    vg.Centimeter / 2,
		PadLeft: vg.Centimeter / 4, PadTop: vg.Centimeter / 4, PadBottom: vg.Centimeter / 4}
	left := draw.Crop(canvas, 0, -barWidth, 0, 0)
	for r, row := range plot.Align(grid, tiles, left) {
		for c := range row {
			if grid[r][c] != nil {
				grid[r][c].Draw(row[c])
			}
		}
	}
	h.scale(draw.Crop(canvas, width+vg.Centimeter/4, 0, 0, 0), colours)
	_, err = page.WriteTo(w)
	return err
}

// heatColours goes from almost white for 0 to dark blue for top. Colours
// stand for the square roots of weights: long rows have small weights, which
// would all be white beside a single large one.
func heatColours(top float64) (palette.ColorMap, error) {
	m, err := moreland.NewLuminance([]color.Color{
		color.NRGBA{8, 29, 88, 255},
		color.NRGBA{34, 94, 168, 255},
		color.NRGBA{65, 182, 196, 255},
		color.NRGBA{199, 233, 180, 255},
		color.NRGBA{255, 255, 242, 255},
	})
	if err != nil {
		return nil, err
	}
	m.SetMax(top)
	m = palette.Reverse(m)
	m.SetMin(0)
	m.SetMax(top)
	return m, nil
}

// Colours of cells without a weight. Both are far from all colours of weights.
var (
	maskedColour = color.Gray{208}
	nanColour    = color.NRGBA{213, 94, 0, 255}
)

// scale draws the colours of weights, and below them the other colours.
func (h *Heatmap) scale(c draw.Canvas, colours palette.ColorMap) {
	margin := 0.15 * (c.Max.Y - c.Min.Y)
	below := max(margin, legendHeight)
	above := max(2*margin-below, vg.Centimeter/2)
	colourBar(colours).Draw(draw.Crop(c, 0, -vg.Centimeter/4, below, -above))
	h.legend(draw.Crop(c, 0, 0, vg.Centimeter/4, 0))
}

// legend explains, below the colour bar, the cells without its colours.
func (h *Heatmap) legend(c draw.Canvas) {
	style, at := plot.New().Legend.TextStyle, c.Min
	for _, e := range []struct {
		name   string
		colour color.Color
		there  func(*Cells) bool
	}{{"NaN", nanColour, (*Cells).anyNaN}, {"masked", maskedColour, (*Cells).anyMasked}} {
		if !slices.ContainsFunc(h.Maps, func(m Heat) bool { return e.there(&m.Cells) }) {
			continue
		}
		side := vg.Points(8)
		square := vg.Rectangle{Min: at, Max: vg.Point{X: at.X + side, Y: at.Y + side}}
		c.SetColor(e.colour)
		c.Fill(square.Path())
		c.FillText(style, vg.Point{X: at.X + side + vg.Points(3), Y: at.Y}, e.name)
		at.Y += vg.Points(12)
	}
}

// gridSize returns the rows and columns of maps, at most three columns.
func gridSize(maps int) (rows, cols int) {
	cols = min(3, maps)
	if maps == 4 {
		cols = 2
	}
	return (maps + cols - 1) / cols, cols
}

// tile arranges plots in rows.
func tile(plots []*plot.Plot) [][]*plot.Plot {
	rows, cols := gridSize(len(plots))
	grid := make([][]*plot.Plot, rows)
	for r := range grid {
		grid[r] = make([]*plot.Plot, cols)
		copy(grid[r], plots[r*cols:])
	}
	return grid
}

// Pixels returns the size of a picture of some maps as PNG.
func Pixels(maps, queries, keys int, labels []string, at int) float64 {
	one := Heat{Cells: Cells{Rows: queries, Cols: keys}}
	h := Heatmap{Maps: slices.Repeat([]Heat{one}, maps), Labels: labels, At: at}
	width, height := h.size()
	return (width + barWidth).Dots(dpi) * height.Dots(dpi)
}

// size returns the size of all maps together.
func (h *Heatmap) size() (width, height vg.Length) {
	rows, cols := gridSize(len(h.Maps))
	width, height = h.mapSize()
	return width * vg.Length(cols), height * vg.Length(rows)
}

// mapSize returns the size of one map with its axes.
func (h *Heatmap) mapSize() (width, height vg.Length) {
	width, height = heatSide, heatSide
	if r := vg.Length(h.Maps[0].Cells.ratio()); r > 1 {
		height /= r
	} else {
		width *= r
	}
	long := vg.Length(0)
	for _, s := range h.drawn() {
		long = max(long, vg.Points(5)*vg.Length(len([]rune(s)))) // roughly
	}
	return width + heatMargin + long, height + heatMargin + long
}

func (h *Heatmap) plot(m Heat, colours palette.ColorMap, l *lettering) (*plot.Plot, error) {
	c := &m.Cells
	p := plot.New()
	p.Title.Text = m.Title
	if c.reduced() {
		p.Title.Text += ", largest weight of each cell"
	}
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text, p.Y.Label.Text = "key", "query"
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Min, p.X.Max = -0.5, float64(c.Cols)-0.5
	p.Y.Min, p.Y.Max = 0.5-float64(c.Rows), 0.5 // query i is at −i: down
	p.X.Tick.Marker, p.Y.Tick.Marker = h.ticks(l.write)
	if h.Labels != nil {
		p.X.Tick.Label.Rotation = math.Pi / 2
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YCenter
		f := font.From(l.font, p.X.Tick.Label.Font.Size)
		p.X.Tick.Label.Font, p.Y.Tick.Label.Font = f, f
	}
	img, err := heatImage(c, colours)
	if err != nil {
		return nil, err
	}
	p.Add(plotter.NewImage(img, p.X.Min, p.Y.Min, p.X.Max, p.Y.Max))
	if c.Cols <= inCells && c.Rows <= 2*inCells {
		return p, writeWeights(p, c, colours.Max()*colours.Max())
	}
	return p, nil
}

// heatImage paints cells as squares of pixels, so that their edges stay sharp when the picture is
// scaled.
func heatImage(c *Cells, colours palette.ColorMap) (image.Image, error) {
	dx, dy := max(1, 1024/c.cols), max(1, 1024/c.rows)
	img := image.NewRGBA(image.Rect(0, 0, c.cols*dx, c.rows*dy))
	for i := range c.rows {
		for j := range c.cols {
			fill, err := c.colour(i, j, colours)
			if err != nil {
				return nil, err
			}
			for y := range dy {
				for x := range dx {
					img.Set(j*dx+x, i*dy+y, fill)
				}
			}
		}
	}
	return img, nil
}

// colour returns the colour of a cell.
func (c *Cells) colour(row, col int, colours palette.ColorMap) (color.Color, error) {
	switch e := c.at(row, col); {
	case c.masked(row, col):
		return maskedColour, nil
	case e != e:
		return nanColour, nil
	default:
		return colours.At(math.Sqrt(e))
	}
}

// writeWeights writes the numbers into the cells of pairs that are not masked.
func writeWeights(p *plot.Plot, c *Cells, top float64) error {
	var at plotter.XYLabels
	for i := range c.rows {
		for j := range c.cols {
			number := ""
			if !c.masked(i, j) {
				number = fmt.Sprintf("%.2f", c.at(i, j))
			}
			at.XYs = append(at.XYs, plotter.XY{X: float64(j), Y: -float64(i)})
			at.Labels = append(at.Labels, number)
		}
	}
	l, err := plotter.NewLabels(at)
	if err != nil {
		return err
	}
	for i := range l.TextStyle {
		l.TextStyle[i].XAlign, l.TextStyle[i].YAlign = text.XCenter, text.YCenter
		l.TextStyle[i].Color = color.Gray{40}
		if c.at(i/c.cols, i%c.cols) > top*0.3 {
			l.TextStyle[i].Color = color.White
		}
	}
	p.Add(l)
	return nil
}

func colourBar(colours palette.ColorMap) *plot.Plot {
	p := plot.New()
	p.Add(&plotter.ColorBar{ColorMap: colours, Vertical: true, Colors: 256})
	p.HideX()
	p.Y.Padding = 0
	p.Y.Label.Text = "weight\n(square-root scale)"
	var ticks plot.ConstantTicks
	for _, t := range (plot.DefaultTicks{}).Ticks(0, colours.Max()*colours.Max()) {
		ticks = append(ticks, plot.Tick{Value: math.Sqrt(t.Value), Label: t.Label})
	}
	p.Y.Tick.Marker = ticks
	return p
}

// tokenTicks has ticks at sign·0, sign·1, … sign·(n−1), or at round steps if those are more than
// most.
func tokenTicks(n, most int, sign float64, name func(i int) string) plot.ConstantTicks {
	step := 1
	for i := 0; n/step > most; i++ { // 1 2 5 10 20 50 …
		step = []int{1, 2, 5}[(i+1)%3] * int(math.Pow10((i+1)/3))
	}
	var ticks plot.ConstantTicks
	for i := 0; i < n; i += step {
		ticks = append(ticks, plot.Tick{Value: sign * float64(i), Label: name(i)})
	}
	return ticks
}
