package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// imageModel opens a small model of images.
func imageModel(t *testing.T, m foldertest.Images) *embed.Model {
	t.Helper()
	folder := t.TempDir()
	m.Write(t, folder)
	model, err := embed.Open(folder, embed.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	return model
}

// dataURL encodes an image, and returns what clients read of it.
func dataURL(t *testing.T, kind string, m image.Image) (url string, decoded image.Image) {
	t.Helper()
	var data bytes.Buffer
	var err error
	if kind == "png" {
		err = png.Encode(&data, m)
	} else {
		err = jpeg.Encode(&data, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	url = "data:image/" + kind + ";base64," + base64.StdEncoding.EncodeToString(data.Bytes())
	if decoded, _, err = image.Decode(&data); err != nil {
		t.Fatal(err)
	}
	return url, decoded
}

func gradient(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = byte(3*i + i>>4)
	}
	return m
}

// embedded are the vectors of a response.
func (x *tester) embedded(input any) [][]float32 {
	x.Helper()
	body, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		x.Fatal(err)
	}
	a := x.post("/v1/embeddings", string(body))
	var l struct {
		Data []struct{ Embedding []float32 }
	}
	a.into(x, &l)
	if a.status != 200 {
		x.Fatalf("status %d, %s", a.status, a.body)
	}
	rows := make([][]float32, len(l.Data))
	for i, d := range l.Data {
		rows[i] = d.Embedding
	}
	return rows
}

// TestEmbeddingsOfImages has the vectors of package embed for images, and texts between them.
func TestEmbeddingsOfImages(t *testing.T) {
	m := imageModel(t, foldertest.CLIP("quick_gelu"))
	x := start(t, Config{Embed: m})
	var input []string
	var images []image.Image
	for i := range 40 {
		kind := []string{"png", "jpeg"}[i%2]
		url, decoded := dataURL(t, kind, gradient(5+i, 40-i/2))
		if i == 7 {
			url = strings.Replace(url, "data:image/jpeg;base64", "Data:Image/JPEG;BASE64", 1)
		}
		input, images = append(input, url), append(images, decoded)
		if i%10 == 3 {
			input = append(input, fmt.Sprint("cat ", i))
		}
	}
	want, err := m.EncodeImages(images)
	if err != nil {
		t.Fatal(err)
	}
	got, next := x.embedded(input), 0
	for i, text := range input {
		row := want[min(next, len(want)-1)]
		if strings.HasPrefix(text, "cat") {
			rows, err := m.Encode([]string{text})
			if err != nil {
				t.Fatal(err)
			}
			row = rows[0]
		} else {
			next++
		}
		if !slices.Equal(got[i], row) {
			t.Errorf("input[%d]: %v, want %v", i, got[i], row)
		}
	}
	if one := x.embedded(input[0]); !slices.Equal(one[0], want[0]) {
		t.Errorf("alone: %v, want %v", one, want[0])
	}
	long, err := json.Marshal(map[string]any{"input": []string{input[0], "cat",
		strings.Repeat("cat ", 30)}})
	if err != nil {
		t.Fatal(err)
	}
	x.refuses(x.post("/v1/embeddings", string(long)), 400, "input", "context_length_exceeded",
		"text 2: it is too long")
}

// TestEmbeddingsOfImagesAlone has no texts.
func TestEmbeddingsOfImagesAlone(t *testing.T) {
	m := imageModel(t, foldertest.ViT())
	x := start(t, Config{Embed: m})
	url, decoded := dataURL(t, "png", gradient(9, 30))
	want, err := m.EncodeImages([]image.Image{decoded})
	if err != nil {
		t.Fatal(err)
	}
	if got := x.embedded([]string{url}); !slices.Equal(got[0], want[0]) {
		t.Errorf("%v, want %v", got, want)
	}
	x.refuses(x.post("/v1/embeddings", `{"input": ["`+url+`", "cat"]}`), 400, "input[1]", "",
		"input[1] is a text, and the model reads images only, want data:image/png;base64,")
}

// TestImagesRefused names the input.
func TestImagesRefused(t *testing.T) {
	x := start(t, Config{Embed: imageModel(t, foldertest.CLIP("gelu"))})
	good, _ := dataURL(t, "png", gradient(5, 5))
	wide, _ := dataURL(t, "png", image.NewPaletted(image.Rect(0, 0, 1<<14+1, 1),
		color.Palette{color.Black}))
	many, _ := dataURL(t, "png", image.NewPaletted(image.Rect(0, 0, 4097, 4096),
		color.Palette{color.Black}))
	var moving bytes.Buffer
	if err := gif.Encode(&moving, gradient(5, 5), nil); err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(moving.Bytes())
	half := good[:len(good)/2]
	half += strings.Repeat("A", 4-(len(half)-len("data:image/png;base64,"))%4)
	for url, want := range map[string]string{
		"data:image/png;base64,":                         "it is no image of type image/png",
		"data:image/png;base64,!":                        "illegal base64 data",
		"data:image/png," + good[len(good)-8:]:           `want data:image/png;base64, or data:image/jpeg`,
		"data:image/png;base64":                          `it begins with "data:image/png;base64", want`,
		"data:image/gif;base64," + encoded:               `it begins with "data:image/gif;base64", want`,
		"data:image/png;base64," + encoded:               "it is no image of type image/png",
		"data:image/jpeg" + good[len("data:image/png"):]: "it is no image of type image/jpeg",
		"data:image/" + strings.Repeat("x", 3000):        "x…",
		wide: "it has 16385 × 1 pixels, want sides of 1 to 16384, and at most 16777216 pixels",
		many: "it has 4097 × 4096 pixels, want",
		half: ": its image is damaged: png: invalid format",
	} {
		a := x.post("/v1/embeddings", `{"input": "`+url+`"}`)
		x.refuses(a, 400, "input", "", want)
		x.refuses(x.post("/v1/embeddings", `{"input": ["cat", "`+good+`", "`+url+`"]}`), 400, "input[2]",
			"", want)
		if len(a.body) > 600 {
			t.Errorf("the error has %d bytes", len(a.body))
		}
	}
	texts := start(t, Config{Embed: randomEmbed(t, 0)})
	texts.refuses(texts.post("/v1/embeddings", `{"input": ["cat", "`+good+`"]}`), 400, "input[1]", "",
		"input[1] is an image, and the model reads texts only")
	texts.embedded("data:text/plain,cat")
}

// TestImagesEnd computes no more when the time is over.
func TestImagesEnd(t *testing.T) {
	s := &Server{Config: Config{Embed: imageModel(t, foldertest.ViT())}}
	url, _ := dataURL(t, "png", gradient(5, 5))
	in := input{all: []string{url}}
	_, _, pictures, err := in.divide(reads{images: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errAnswerTime)
	rows, err := s.encodeInput(ctx, 1, nil, nil, pictures)
	if !errors.Is(err, errAnswerTime) || rows[0] != nil {
		t.Errorf("error %v, %v", err, rows)
	}
}
