package embed

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"slices"
)

// checkPixels refuses pictures whose pixels cannot be read: planes shorter than the bounds, and
// colors that do not exist.
func checkPixels(m image.Image) error {
	size := m.Bounds().Size()
	pix := func(bytes []byte, stride, pixel int) error {
		return checkPlane("Pix", bytes, stride, pixel*size.X, size.Y)
	}
	switch m := m.(type) {
	case *image.RGBA:
		return pix(m.Pix, m.Stride, 4)
	case *image.NRGBA:
		return pix(m.Pix, m.Stride, 4)
	case *image.CMYK:
		return pix(m.Pix, m.Stride, 4)
	case *image.RGBA64:
		return pix(m.Pix, m.Stride, 8)
	case *image.NRGBA64:
		return pix(m.Pix, m.Stride, 8)
	case *image.Gray:
		return pix(m.Pix, m.Stride, 1)
	case *image.Gray16:
		return pix(m.Pix, m.Stride, 2)
	case *image.Alpha:
		return pix(m.Pix, m.Stride, 1)
	case *image.Alpha16:
		return pix(m.Pix, m.Stride, 2)
	case *image.Paletted:
		if err := pix(m.Pix, m.Stride, 1); err != nil {
			return err
		}
		return checkPalette(m)
	case *image.YCbCr:
		return checkYCbCr(m)
	case *image.NYCbCrA:
		if err := checkPlane("A", m.A, m.AStride, size.X, size.Y); err != nil {
			return err
		}
		return checkYCbCr(&m.YCbCr)
	}
	return checkColors(m)
}

// checkPlane refuses bytes that do not hold rows of some width.
func checkPlane(name string, bytes []byte, stride, width, rows int) error {
	if n := len(bytes); n < width || stride < width || rows > 1 && stride > (n-width)/(rows-1) {
		return fmt.Errorf("%s has %d bytes and a stride of %d, want %d rows of %d bytes", name, n, stride,
			rows, width)
	}
	return nil
}

// checkYCbCr refuses planes that are too short, also of Cb and Cr with fewer pixels.
func checkYCbCr(m *image.YCbCr) error {
	r := m.Rect
	one := *m
	one.CStride = 0
	width := one.COffset(r.Max.X-1, r.Min.Y) + 1
	one.CStride = 1
	rows := one.COffset(r.Min.X, r.Max.Y-1) + 1
	return errors.Join(checkPlane("Y", m.Y, m.YStride, r.Dx(), r.Dy()),
		checkPlane("Cb", m.Cb, m.CStride, width, rows),
		checkPlane("Cr", m.Cr, m.CStride, width, rows))
}

// checkPalette refuses pixels whose color the palette does not have.
func checkPalette(m *image.Paletted) error {
	for y := m.Rect.Min.Y; y < m.Rect.Max.Y; y++ {
		row := m.Pix[m.PixOffset(m.Rect.Min.X, y):][:m.Rect.Dx()]
		if index := slices.Max(row); int(index) >= len(m.Palette) {
			return fmt.Errorf("it has a pixel of color %d, and its palette has %d colors", index,
				len(m.Palette))
		}
		if !slices.Contains(m.Palette, color.Color(nil)) {
			continue
		}
		for _, index := range row {
			if m.Palette[index] == nil {
				return fmt.Errorf("it has a pixel of color %d, which is nil in its palette", index)
			}
		}
	}
	return nil
}

// checkColors refuses pictures of other types that return nil for a pixel.
func checkColors(m image.Image) error {
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if m.At(x, y) == nil {
				return fmt.Errorf("the color at %d, %d is nil", x, y)
			}
		}
	}
	return nil
}
