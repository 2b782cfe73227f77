package embed

import (
	"errors"
	"image"
	"image/color"
	"math"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// holes is a picture that returns nil for a pixel.
type holes struct{ image.Rectangle }

func (h holes) ColorModel() color.Model { return color.RGBAModel }
func (h holes) Bounds() image.Rectangle { return h.Rectangle }
func (h holes) At(x, y int) color.Color {
	if x == 2 && y == 1 {
		return nil
	}
	return color.Black
}

// TestDamagedImages has pictures of each type that hold less than their bounds say, which are
// errors, and parts of whole ones, which are not.
func TestDamagedImages(t *testing.T) {
	c := vitImageTest()
	path, _ := writeImages(t, &c)
	m := mustOpen(t, path, Options{Workers: 1})
	box := image.Rect(-3, -2, 6, 7)
	part := image.Rect(-1, -1, 5, 6)
	for name, damage := range map[string]func() (whole image.Image, damaged func()){
		"RGBA": func() (image.Image, func()) {
			m := image.NewRGBA(box)
			return m, func() { m.Pix = m.Pix[:len(m.Pix)-1] }
		},
		"NRGBA": func() (image.Image, func()) {
			m := image.NewNRGBA(box)
			return m, func() { m.Stride = -m.Stride }
		},
		"CMYK": func() (image.Image, func()) {
			m := image.NewCMYK(box)
			return m, func() { m.Pix = m.Pix[:10] }
		},
		"RGBA64": func() (image.Image, func()) {
			m := image.NewRGBA64(box)
			return m, func() { m.Stride = math.MaxInt }
		},
		"NRGBA64": func() (image.Image, func()) {
			m := image.NewNRGBA64(box)
			return m, func() { m.Pix = m.Pix[:len(m.Pix)-1] }
		},
		"Gray": func() (image.Image, func()) {
			m := image.NewGray(box)
			return m, func() { m.Rect.Max.Y++ }
		},
		"Gray16": func() (image.Image, func()) {
			m := image.NewGray16(box)
			return m, func() { m.Rect.Max.X++ }
		},
		"Alpha": func() (image.Image, func()) {
			m := image.NewAlpha(box)
			return m, func() { m.Pix = nil }
		},
		"Alpha16": func() (image.Image, func()) {
			m := image.NewAlpha16(box)
			return m, func() { m.Stride++ }
		},
		"Paletted": func() (image.Image, func()) {
			m := image.NewPaletted(box, color.Palette{color.Black})
			return m, func() { m.Pix = m.Pix[:len(m.Pix)-1] }
		},
		"Palette": func() (image.Image, func()) {
			m := image.NewPaletted(box, color.Palette{color.Black, nil})
			return m, func() { m.Pix[8] = 1 }
		},
		"NYCbCrA": func() (image.Image, func()) {
			m := image.NewNYCbCrA(box, image.YCbCrSubsampleRatio420)
			return m, func() { m.A = m.A[1:] }
		},
		"NYCbCrA's Y": func() (image.Image, func()) {
			m := image.NewNYCbCrA(box, image.YCbCrSubsampleRatio420)
			return m, func() { m.Y = m.Y[1:] }
		},
	} {
		whole, damaged := damage()
		checkDamaged(t, m, name, whole, part, damaged)
	}
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio410; ratio++ {
		picture := image.NewYCbCr(box, ratio)
		checkDamaged(t, m, ratio.String(), picture, part, func() { picture.Cr = picture.Cr[1:] })
		picture = image.NewYCbCr(box, ratio)
		checkDamaged(t, m, ratio.String(), picture, part, func() { picture.Cb = nil })
	}
	_, err := m.EncodeImages([]image.Image{holes{image.Rect(0, 0, 3, 2)}})
	if err == nil || !strings.Contains(err.Error(), "images[0]: the color at 2, 1 is nil") {
		t.Errorf("a color that is nil: %v", err)
	}
}

// checkDamaged encodes a picture and a part of it. After the damage the picture is an error.
func checkDamaged(t *testing.T, m *Model, name string, whole image.Image, part image.Rectangle,
	damage func()) {
	t.Helper()
	inside := whole.(interface {
		SubImage(r image.Rectangle) image.Image
	}).SubImage(part)
	if _, err := m.ClassifyImages([]image.Image{whole, inside}); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	damage()
	_, err := m.ClassifyImages([]image.Image{inside, whole})
	if !errors.Is(err, attn.ErrOption) || !strings.Contains(err.Error(), "images[1]: ") {
		t.Errorf("%s damaged: %v, want an error of images[1]", name, err)
	}
}
