package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/chart"
)

// An infinite weight has no colour.
func TestHeatmapOfNoWeights(t *testing.T) {
	cells := chart.NewCells(1, 2, 8)
	cells.Add(0, []float32{1, float32(math.Inf(1))}, []float32{1, 1})
	h := chart.Heatmap{Maps: []chart.Heat{{Title: "head", Cells: cells}}}
	if err := h.Draw(io.Discard, chart.SVG); err == nil {
		t.Error("no error for an infinite weight")
	}
}

// pictureFolder has inputs of one head with six tokens, and their labels.
func pictureFolder(t *testing.T, labels ...string) folder {
	f := newFolder(t)
	for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
		f.random(name, uint64(i), 1, 6, 4)
	}
	f.write("l.txt", []byte(strings.Join(labels, "\n")))
	return f
}

// An ending names the kind of picture, in any case of its letters.
func TestPictureFormats(t *testing.T) {
	f := pictureFolder(t, "one", "two", "three", "four", "five", "six")
	for name, magic := range map[string]string{"h.png": "\x89PNG", "h.PNG": "\x89PNG",
		"h.svg": "<?xml", "h.pdf": "%PDF-", "h.Pdf": "%PDF-"} {
		f.mustRun("-png", "@"+name, "-labels", "@l.txt")
		if b, err := os.ReadFile(f.path(name)); err != nil || !strings.HasPrefix(string(b), magic) {
			t.Errorf("%s begins with %.8q, error %v", name, b, err)
		}
	}
}

// An SVG file is XML, with labels as text, and images of the declared type and of the size of the
// map.
func TestSVG(t *testing.T) {
	f := pictureFolder(t, "one", "<two>", "th&ree", "\x01four", "\xfffive", "si\ufffex")
	if status, _, stderr := f.run("-png", "@h.svg", "-labels", "@l.txt"); status != 0 ||
		!strings.Contains(stderr, "U+0001") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	b, err := os.ReadFile(f.path("h.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	images := 0
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.CharData:
			text.Write(e)
		case xml.StartElement:
			if e.Name.Local == "image" {
				images++
				checkSVGImage(t, e)
			}
		}
	}
	for _, want := range []string{"one", "<two>", "th&ree", "�four", "�five", "si�x", "head 0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in %q", want, text.String())
		}
	}
	if images != 2 {
		t.Errorf("%d images, want the map and the scale", images)
	}
}

func checkSVGImage(t *testing.T, e xml.StartElement) {
	got := map[string]string{}
	for _, a := range e.Attr {
		got[a.Name.Local] = a.Value
	}
	data, ok := strings.CutPrefix(got["href"], "data:image/png;base64,")
	if !ok || got["preserveAspectRatio"] != "none" {
		t.Errorf("an image is %.30s with aspect ratio %q", got["href"], got["preserveAspectRatio"])
	}
	if _, err := png.Decode(base64.NewDecoder(base64.StdEncoding,
		strings.NewReader(data))); err != nil {
		t.Error(err)
	}
}

// In a PDF the images are upright, all letters are there as outlines, and no font leaves anything
// in the folder of temporary files.
func TestPDF(t *testing.T) {
	temporary := newFolder(t)
	temporary.write("a file", nil) // in place of a folder
	t.Setenv("TMPDIR", temporary.path("a file"))
	f := pictureFolder(t, "Ġone", "▁two", "жук", "α", "ע", "ا")
	f.mustRun("-png", "@h.pdf", "-labels", "@l.txt", "-causal", "topleft")
	commands := pdfCommands(t, f.path("h.pdf"))
	if n := strings.Count(commands, " c\n") + strings.Count(commands, " v\n") +
		strings.Count(commands, " y\n"); n < 100 {
		t.Errorf("%d curves: too few for letters", n)
	}
	if up := pdfImages(commands); len(up) != 2 || up[0] <= 0 || up[1] <= 0 {
		t.Errorf("the images' heights are %v, want two that go up", up)
	}
}

// pdfCommands are those that draw the page.
func pdfCommands(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stream := regexp.MustCompile(`(?s)/Filter /FlateDecode /Length \d+>>\s*stream\n(.*?)\nendstream`)
	page := stream.FindSubmatch(b)
	if page == nil {
		t.Fatal("no page")
	}
	r, err := zlib.NewReader(bytes.NewReader(page[1]))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pdfImages returns how far up the page each image's upper edge is from its lower one. Nothing is
// rotated there.
func pdfImages(commands string) (up []float64) {
	stack := []float64{1}
	top := func() *float64 { return &stack[len(stack)-1] }
	words := strings.Fields(commands)
	for i, w := range words {
		var x float64
		switch w {
		case "q":
			stack = append(stack, *top())
		case "Q":
			stack = stack[:len(stack)-1]
		case "cm": // a b c d e f cm
			fmt.Sscan(words[i-3], &x)
			*top() *= x
		case "Do":
			up = append(up, *top())
		}
	}
	return up
}

// ink counts the dark pixels of a PNG left of the map, where the labels of the queries are.
func (f folder) ink(name string) (dark int) {
	f.Helper()
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		f.Fatal(err)
	}
	for y := range img.Bounds().Dy() {
		for x := range 60 {
			if r, _, _, _ := img.At(x, y).RGBA(); r < 1<<15 {
				dark++
			}
		}
	}
	return dark
}

// No label is blank. What the fonts lack is named once, with the label, and the rest of the picture
// is as it was.
func TestLabelsAreNotBlank(t *testing.T) {
	blank := pictureFolder(t, " ", " ", " ", " ", " ", " ")
	blank.mustRun("-png", "@h.png", "-labels", "@l.txt")
	without := blank.ink("h.png")
	for label, warning := range map[string]string{
		"Ġ":    "",
		"▁":    "", // only the second font has it
		"你":    `U+4F60 '你' (of "你")`,
		"\t":   `U+0009 (of "\t")`,
		"\xff": `U+FFFD '�' (of "\xff")`,
	} {
		f := pictureFolder(t, label, label, label, label, label, label)
		status, _, stderr := f.run("-png", "@h.png", "-labels", "@l.txt")
		if with := f.ink("h.png"); status != 0 || with < without+60 {
			t.Errorf("%q: status %d, %d dark pixels, %d without labels", label, status, with, without)
		}
		named := strings.Count(stderr, warning) == 1 && strings.Count(stderr, "\n") == 1 &&
			strings.Contains(stderr, "l.txt")
		if warning == "" && stderr != "" || warning != "" && !named {
			t.Errorf("%q: stderr is %q, want one line with %s", label, stderr, warning)
		}
	}
}

// A warning stays short, and tells only of what the picture would show. SVG files have no fonts to
// lack.
func TestWarningOfLabels(t *testing.T) {
	f := pictureFolder(t, "一二", "三四", "五六", "七八", "九十", "ok")
	_, _, stderr := f.run("-png", "@h.png", "-labels", "@l.txt")
	if !strings.Contains(stderr, `U+4E8C '二' (of "一二")`) ||
		!strings.Contains(stderr, "2 more characters") {
		t.Errorf("stderr is %q", stderr)
	}
	f.mustRun("-png", "@h.svg", "-labels", "@l.txt")

	const keys = 700 // more than have labels
	for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
		f.random(name, uint64(i), 1, keys, 4)
	}
	f.write("l.txt", []byte("one\n"+strings.Repeat("一\n", 2)+strings.Repeat("ok\n", keys-3)))
	f.mustRun("-png", "@h.png", "-labels", "@l.txt")
}

// pixels decodes a picture.
func (f folder) pixels(name string) image.Image {
	f.Helper()
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		f.Fatal(err)
	}
	return img
}

// share is how much of a picture has a colour.
func share(img image.Image, red, green, blue uint32) float64 {
	n, size := 0, img.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			if r, g, b, _ := img.At(x, y).RGBA(); r>>8 == red && g>>8 == green && b>>8 == blue {
				n++
			}
		}
	}
	return float64(n) / float64(size.X*size.Y)
}

// Pairs that are masked have a colour that no weight has, however small it is, and so has NaN. The
// legend says what these are, and the scale that it is not linear.
func TestMaskedPairs(t *testing.T) {
	for _, tokens := range []int{8, 300} {
		f := newFolder(t)
		for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
			a := f.random(name, uint64(i), tokens, 4)
			for i := range a.Data {
				a.Data[i] *= 30 // most weights are 0
			}
			f.save(name, a)
		}
		f.mustRun("-png", "@all.png")
		f.mustRun("-png", "@causal.png", "-causal", "topleft")
		all := share(f.pixels("all.png"), 208, 208, 208)
		causal := share(f.pixels("causal.png"), 208, 208, 208)
		if all > 0.001 || causal < 0.2 || causal > 0.4 {
			t.Errorf("%d tokens: %.3f of the picture are masked, %.3f with a causal mask", tokens, all,
				causal)
		}
	}
	f := pictureFolder(t)
	k := f.read("k.npy")
	k.Data[0] = float32(math.NaN())
	f.save("k.npy", k)
	f.mustRun("-png", "@h.png")
	if nan := share(f.pixels("h.png"), 213, 94, 0); nan < 0.05 {
		t.Errorf("%.3f of the picture are NaN", nan)
	}
	f.mustRun("-png", "@h.svg", "-causal", "bottomright")
	b, err := os.ReadFile(f.path("h.svg"))
	for _, want := range []string{">masked<", ">NaN<", ">weight<", ">(square-root scale)<"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("error %v, no %q in the legend", err, want)
		}
	}
}

// What is drawn as visible is what the options say, whatever the scores are.
func TestVisible(t *testing.T) {
	const h, lq, lk = 2, 5, 9
	bias := attn.BHLD(make([]float32, h*lq*lk), 1, h, lq, lk)
	mask := attn.View[bool]{Data: make([]bool, lk), B: 1, H: h, L: lq, D: lk,
		SH: attn.Broadcast, SL: attn.Broadcast}
	for i := range bias.Data {
		bias.Data[i] = []float32{-3e38, float32(math.Inf(-1)), 0, 5}[i*i%7%4]
		mask.Data[i%lk] = i%lk%3 > 0
	}
	inBias := func(head, i, j int) bool { return bias.Data[(head*lq+i)*lk+j] >= -3e38 }
	past := func(_, i, j int) bool { return j <= i+lk-lq }
	type sees func(head, i, j int) bool
	for name, c := range map[string]struct {
		opt attn.Options
		see sees
	}{
		"all": {attn.Options{Softcap: 1, Slopes: []float32{100, 200}, Sinks: []float32{1e30, 1e30}},
			func(_, i, j int) bool { return true }},
		"causal": {attn.Options{Causal: attn.BottomRight, Slopes: []float32{100, 200}}, past},
		"window": {attn.Options{Causal: attn.TopLeft, Offset: 2, Window: attn.Window{Left: 2, Right: 1}},
			func(_, i, j int) bool { return j == i+2 || j == i+1 }},
		"mask": {attn.Options{Mask: mask}, func(_, i, j int) bool { return j%3 > 0 }},
		"bias": {attn.Options{Bias: bias}, inBias},
		"together": {attn.Options{Bias: bias, Mask: mask, Causal: attn.BottomRight},
			func(head, i, j int) bool { return inBias(head, i, j) && j%3 > 0 && past(head, i, j) }},
	} {
		token := func(l int) attn.Tensor { return attn.BHLD(make([]float32, h*l*4), 1, h, l, 4) }
		j := job{attend: attn.Attend, q: token(lq), k: token(lk), v: token(lk), dst: token(lq),
			opt: c.opt}
		if err := j.check(); err != nil {
			t.Fatal(err)
		}
		for head := range h {
			got := make([]float32, 3*lk)
			if err := j.visible(slice{0, head, head + 1, 1, 4}, got); err != nil {
				t.Fatal(err)
			}
			for i, g := range got {
				if want := c.see(head, 1+i/lk, i%lk); g > 0 != want {
					t.Errorf("%s: query %d of head %d sees key %d: %v", name, 1+i/lk, head, i%lk, !want)
				}
			}
		}
	}
}

// The pixels of a picture are known before it is drawn, and bounded.
func TestPixels(t *testing.T) {
	f := newFolder(t)
	for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
		f.random(name, uint64(i), 200, 6, 4)
	}
	f.write("l.txt", []byte("one\ntwo\nthree\nfour\nfive\nsix, a long one"))
	for _, heads := range []string{"0", "0,1", "0,1,2,3,4"} {
		f.mustRun("-png", "@h.png", "-png-heads", heads, "-labels", "@l.txt")
		size := f.pixels("h.png").Bounds().Size()
		want := float64(size.X * size.Y)
		labels := []string{"one", "two", "three", "four", "five", "six, a long one"}
		if got := chart.Pixels(strings.Count(heads, ",")+1, 6, 6, labels, 0); got < 0.99*want ||
			got > 1.01*want {
			t.Errorf("heads %s: %.0f pixels, want %.0f", heads, got, want)
		}
	}
	var all []string
	for i := range 200 {
		all = append(all, fmt.Sprint(i))
	}
	status, stdout, stderr := f.run("-png", "@big.png", "-png-heads", strings.Join(all, ","))
	checkRefusal(t, 1, status, stdout, stderr, "-png-heads names 200 heads, which makes a picture of")
}
