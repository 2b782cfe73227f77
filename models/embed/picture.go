package embed

import (
	"fmt"
	"image"
	"image/color"
	"reflect"

	"github.com/seed-1415985d/attn"
)

// The largest pictures: pixels of a side, and in all.
const mostSide, mostPixels = 1 << 14, 1 << 26

// checkImage refuses pictures that cannot be read, and those that are too large.
func checkImage(i int, m image.Image) error {
	if v := reflect.ValueOf(m); m == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("embed: images[%d] is nil, want an image: %w", i, attn.ErrOption)
	}
	b := m.Bounds()
	w, h := b.Dx(), b.Dy()
	if b.Empty() || w < 1 || h < 1 || w > mostSide || h > mostSide || w*h > mostPixels {
		return fmt.Errorf("embed: images[%d] is of %d × %d pixels, want sides of 1 to %d, "+
			"and at most %d "+
			"pixels: %w", i, w, h, mostSide, mostPixels, attn.ErrOption)
	}
	if err := checkPixels(m); err != nil {
		return fmt.Errorf("embed: images[%d]: %w: %w", i, err, attn.ErrOption)
	}
	return nil
}

// readRow writes pixels of row y from column x on, both counted from the corner, as red, green and
// blue bytes. Alpha is dropped, not blended. The numbers are the same as of Pillow's
// convert("RGB"), for types that Pillow has, too.
func readRow(to []byte, m image.Image, x, y int) {
	b := m.Bounds()
	x, y = x+b.Min.X, y+b.Min.Y
	n := len(to) / 3
	switch m := m.(type) {
	case *image.YCbCr:
		for i := range n {
			at, chroma := m.YOffset(x+i, y), m.COffset(x+i, y)
			to[3*i], to[3*i+1], to[3*i+2] = color.YCbCrToRGB(m.Y[at], m.Cb[chroma], m.Cr[chroma])
		}
	case *image.NRGBA:
		for i := range n {
			copy(to[3*i:3*i+3], m.Pix[m.PixOffset(x+i, y):])
		}
	case *image.RGBA:
		for i := range n {
			p := m.Pix[m.PixOffset(x+i, y):][:4]
			to[3*i], to[3*i+1], to[3*i+2] = apart(p[0], p[3]), apart(p[1], p[3]), apart(p[2], p[3])
		}
	case *image.Gray:
		for i := range n {
			g := m.Pix[m.PixOffset(x+i, y)]
			to[3*i], to[3*i+1], to[3*i+2] = g, g, g
		}
	case *image.Gray16:
		for i := range n {
			g := byte(min(m.Gray16At(x+i, y).Y, 255))
			to[3*i], to[3*i+1], to[3*i+2] = g, g, g
		}
	case *image.NRGBA64:
		for i := range n {
			p := m.Pix[m.PixOffset(x+i, y):]
			to[3*i], to[3*i+1], to[3*i+2] = p[0], p[2], p[4] // big-endian
		}
	case *image.CMYK:
		for i := range n {
			p := m.Pix[m.PixOffset(x+i, y):]
			k := 255 - p[3]
			to[3*i], to[3*i+1], to[3*i+2] = inked(p[0], k), inked(p[1], k), inked(p[2], k)
		}
	default:
		for i := range n {
			c := color.NRGBAModel.Convert(m.At(x+i, y)).(color.NRGBA)
			to[3*i], to[3*i+1], to[3*i+2] = c.R, c.G, c.B
		}
	}
}

// apart returns a premultiplied channel without its alpha, as color.NRGBAModel does.
func apart(c, alpha byte) byte {
	switch alpha {
	case 255:
		return c
	case 0:
		return 0
	}
	return byte(uint32(c) * 0x101 * 0xffff / (uint32(alpha) * 0x101) >> 8)
}

// inked returns the channel of ink c over black ink k.
func inked(c, k byte) byte {
	t := int(c)*int(k) + 128
	return k - byte((t+t>>8)>>8)
}
