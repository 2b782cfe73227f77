package chart

import (
	"fmt"
	"image"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Format is a picture format, by the extension of file names.
type Format string

const (
	PNG Format = ".png"
	SVG Format = ".svg"
	PDF Format = ".pdf"
)

const dpi = 120 // of PNG

// FormatOf returns the picture format of a file name.
func FormatOf(name string) (Format, error) {
	switch f := Format(strings.ToLower(filepath.Ext(name))); f {
	case PNG, SVG, PDF:
		return f, nil
	}
	return "", fmt.Errorf("is %s, want a name that ends in .png, .svg or .pdf", name)
}

// canvas returns a white page of a size.
func (f Format) canvas(width, height vg.Length) vg.CanvasWriterTo {
	var c vg.CanvasWriterTo
	switch f {
	case SVG:
		c = svgCanvas{vgsvg.New(width, height)}
	case PDF:
		c = pdfCanvas{vgpdf.New(width, height)}
	default:
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	}
	page := vg.Rectangle{Max: vg.Point{X: width, Y: height}}
	c.SetColor(color.White) // viewers choose the colour of unpainted areas
	c.Fill(page.Path())
	c.SetColor(color.Black)
	return c
}

// svgCanvas repairs the images in an SVG file. The library writes PNG and says JPEG, so that some
// programs show nothing, and leaves images as wide as they are high.
type svgCanvas struct{ *vgsvg.Canvas }

// Text cannot contain the replaced strings: < is escaped there, and labels are short.
var svgImages = strings.NewReplacer(
	"<image ", `<image preserveAspectRatio="none" `,
	"data:image/jpg;base64,", "data:image/png;base64,")

// WriteTo writes the file.
func (c svgCanvas) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	c.Canvas.WriteTo(&b) // writing to memory does not fail
	n, err := svgImages.WriteString(w, b.String())
	return int64(n), err
}

// pdfCanvas draws text as the outlines of its letters. The library writes text in fonts of 256
// characters, shows other characters as several wrong ones, and makes fonts from temporary files,
// which stay if the program is interrupted.
type pdfCanvas struct{ *vgpdf.Canvas }

// DrawImage draws an image the right way up; the library draws it upside down.
func (c pdfCanvas) DrawImage(at vg.Rectangle, img image.Image) {
	c.Push()
	c.Translate(vg.Point{Y: at.Min.Y + at.Max.Y})
	c.Scale(1, -1)
	c.Canvas.DrawImage(at, img)
	c.Pop()
}

// FillString draws text from at to the right.
func (c pdfCanvas) FillString(face font.Face, at vg.Point, text string) {
	var path vg.Path
	done := ""
	for _, r := range text {
		done += string(r)
		pen := vg.Point{X: at.X + face.Width(done) - face.Width(string(r)), Y: at.Y}
		path = append(path, outline(face, r, pen)...)
	}
	if path != nil {
		c.Fill(path)
	}
}

// outline is the path around a character.
func outline(face font.Face, r rune, pen vg.Point) (path vg.Path) {
	var b sfnt.Buffer
	units := fixed.Int26_6(face.Face.UnitsPerEm()) // at this size, coordinates are whole
	// 0, the glyph of missing characters, if that fails
	glyph, _ := face.Face.GlyphIndex(&b, r)
	segments, err := face.Face.LoadGlyph(&b, glyph, units, nil)
	if err != nil {
		return nil
	}
	scale := face.Font.Size / vg.Length(units)
	point := func(p fixed.Point26_6) vg.Point { // the font's y goes down
		return vg.Point{X: pen.X + scale*vg.Length(p.X), Y: pen.Y - scale*vg.Length(p.Y)}
	}
	for _, s := range segments {
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			path.Move(point(s.Args[0]))
		case sfnt.SegmentOpLineTo:
			path.Line(point(s.Args[0]))
		case sfnt.SegmentOpQuadTo:
			path.QuadTo(point(s.Args[0]), point(s.Args[1]))
		case sfnt.SegmentOpCubeTo:
			path.CubeTo(point(s.Args[0]), point(s.Args[1]), point(s.Args[2]))
		}
	}
	return path
}
