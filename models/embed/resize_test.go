package embed

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"math"
	"os"
	"strings"
	"testing"
)

// congruential generates the bytes of testdata/pillow.py.
type congruential uint64

func (c *congruential) take(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		*c = *c*6364136223846793005 + 1442695040888963407
		out[i] = byte(*c >> 56)
	}
	return out
}

// madePicture returns a picture in a mode of Pillow.
func madePicture(t *testing.T, mode string, w, h int, source *congruential) image.Image {
	t.Helper()
	bounds := image.Rect(3, -2, 3+w, h-2) // with any corner
	switch mode {
	case "L":
		return &image.Gray{Pix: source.take(w * h), Stride: w, Rect: bounds}
	case "RGB":
		m := image.NewNRGBA(bounds)
		for i, x := range source.take(3 * w * h) {
			m.Pix[i/3*4+i%3], m.Pix[i/3*4+3] = x, 255
		}
		return m
	case "RGBA":
		return &image.NRGBA{Pix: source.take(4 * w * h), Stride: 4 * w, Rect: bounds}
	case "CMYK": // Pillow computes as Go does
		return &image.CMYK{Pix: source.take(4 * w * h), Stride: 4 * w, Rect: bounds}
	case "P":
		palette, colors := source.take(768), color.Palette{}
		for i := range 256 {
			colors = append(colors, color.NRGBA{palette[3*i], palette[3*i+1], palette[3*i+2], 255})
		}
		return &image.Paletted{Pix: source.take(w * h), Stride: w, Rect: bounds, Palette: colors}
	case "I;16":
		data := source.take(2 * w * h)
		for i := 0; i < len(data); i += 2 { // little-endian in Pillow
			data[i], data[i+1] = data[i+1], data[i]
		}
		return &image.Gray16{Pix: data, Stride: 2 * w, Rect: bounds}
	}
	t.Fatalf("mode %q", mode)
	return nil
}

// TestResizeEqualsPillow compares 240 pictures of all modes and filters with Pillow's.
func TestResizeEqualsPillow(t *testing.T) {
	f, err := os.Open("testdata/pillow.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var memory scratch
	seen := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var mode, want string
		var w, h, filter int
		var out rectangle
		if _, err := fmt.Sscan(lines.Text(), &mode, &w, &h, &filter, &out.w, &out.h, &want); err != nil {
			t.Fatal(err)
		}
		source := congruential(1000 + seen)
		p := &processor{filter: resampling(filter), resizes: true, size: out}
		sum := sha256.Sum256(p.pixels(&memory, madePicture(t, mode, w, h, &source), out))
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("%s: %s", lines.Text(), got)
		}
		seen++
	}
	if seen != 240 {
		t.Errorf("%d pictures, want 240", seen)
	}
}

// TestCropSeesPartOfThePicture compares crops with the crop of the whole resized picture, for all
// sizes.
func TestCropSeesPartOfThePicture(t *testing.T) {
	source := congruential(5)
	var memory scratch
	for i := range 200 {
		side := source.take(4)
		w, h := 1+int(side[0]%40), 1+int(side[1]%40)
		p := &processor{filter: resampling(i % 6), resizes: i%5 > 0, shortest: 1 + int(side[2]%30)}
		out := rectangle{1 + int(side[3]%25), 1 + int(side[3]/8%25)}
		m := madePicture(t, "RGB", w, h, &source)
		whole := p.resized(rectangle{h, w})
		all := append([]byte{}, p.pixels(&memory, m, whole)...)
		got := p.pixels(&memory, m, out)
		top, left := int(math.Floor(float64(whole.h-out.h)/2)), int(math.Floor(float64(whole.w-out.w)/2))
		for y := range out.h {
			for x := range out.w {
				for c := range 3 {
					want, sy, sx := byte(0), y+top, x+left
					if sy >= 0 && sy < whole.h && sx >= 0 && sx < whole.w {
						want = all[3*(sy*whole.w+sx)+c]
					}
					if got[3*(y*out.w+x)+c] != want {
						t.Fatalf("%d: %d × %d to %v, crop %v: (%d, %d) is wrong", i, w, h, whole, out, y, x)
					}
				}
			}
		}
	}
}

// TestShortestEdge: the longer side is rounded down, and a long picture is computed only where it
// is kept.
func TestShortestEdge(t *testing.T) {
	p := &processor{filter: bicubic, resizes: true, shortest: 224}
	for from, want := range map[rectangle]rectangle{{100, 100}: {224, 224}, {101, 100}: {226, 224},
		{100, 333}: {224, 745}, {1 << 14, 1}: {224 << 14, 224}} {
		if got := p.resized(from); got != want {
			t.Errorf("%v becomes %v, want %v", from, got, want)
		}
	}
	var memory scratch
	long := image.NewGray(image.Rect(0, 0, 1, 1<<14))
	p.pixels(&memory, long, rectangle{224, 224})
	if n := cap(memory.narrow) + cap(memory.to) + cap(memory.row); n > 1<<20 {
		t.Errorf("a long picture takes %d bytes", n)
	}
}

// TestColors compares rows of each type with package color.
func TestColors(t *testing.T) {
	source := congruential(1)
	bounds := image.Rect(-3, 5, 14, 16)
	rgba, ycc := image.NewRGBA(bounds), image.NewYCbCr(bounds, image.YCbCrSubsampleRatio420)
	wide, deep := image.NewNRGBA64(bounds), image.NewRGBA64(bounds)
	for i, x := range source.take(len(rgba.Pix)) {
		rgba.Pix[i] = x
		if alpha := i | 3; i%4 == 3 {
			for j := alpha - 3; j < alpha; j++ {
				rgba.Pix[j] = min(rgba.Pix[j], x) // premultiplied
			}
		}
	}
	copy(ycc.Y, source.take(len(ycc.Y)))
	copy(ycc.Cb, source.take(len(ycc.Cb)))
	copy(ycc.Cr, source.take(len(ycc.Cr)))
	copy(wide.Pix, source.take(len(wide.Pix)))
	copy(deep.Pix, source.take(len(deep.Pix)))
	for i := 0; i < len(deep.Pix); i += 8 { // premultiplied
		deep.Pix[i+6] = 255
	}
	for _, m := range []image.Image{rgba, ycc, ycc.SubImage(image.Rect(1, 7, 9, 12)), wide, deep} {
		b := m.Bounds()
		row := make([]byte, 3*(b.Dx()-2))
		for y := range b.Dy() {
			readRow(row, m, 1, y)
			for x := range b.Dx() - 2 {
				want := color.NRGBAModel.Convert(m.At(b.Min.X+1+x, b.Min.Y+y)).(color.NRGBA)
				if m == wide {
					c := wide.NRGBA64At(b.Min.X+1+x, b.Min.Y+y)
					want = color.NRGBA{byte(c.R >> 8), byte(c.G >> 8), byte(c.B >> 8), 255}
				}
				if got := row[3*x:][:3]; got[0] != want.R || got[1] != want.G || got[2] != want.B {
					t.Fatalf("%T at (%d, %d): %v, want %v", m, x, y, got, want)
				}
			}
		}
	}
}

// TestSineCosine compares with Go's functions.
func TestSineCosine(t *testing.T) {
	for a := 0.0; a < 10; a += 0.001 {
		sine, cosine := sineCosine(a)
		if math.Abs(sine-math.Sin(a)) > 4e-16 || math.Abs(cosine-math.Cos(a)) > 4e-16 {
			t.Fatalf("of %v: %v and %v, want %v and %v", a, sine, cosine, math.Sin(a), math.Cos(a))
		}
	}
}
