package embed_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// TestSearchImages runs what ExampleModel_EncodeImages shows, with a small model.
func TestSearchImages(t *testing.T) {
	folder, clip := t.TempDir(), foldertest.CLIP("gelu")
	clip.Write(t, folder)
	m, err := embed.Open(folder, embed.Options{Normalize: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var files []string
	var images []image.Image
	for i := range 9 {
		picture := image.NewGray(image.Rect(0, 0, 20+i, 30))
		for j := range picture.Pix {
			picture.Pix[j] = byte(j * (i + 3) >> 2)
		}
		var data bytes.Buffer
		if err := png.Encode(&data, picture); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint(i, ".png")
		foldertest.Write(t, folder, name, data.Bytes())
		files, images = append(files, filepath.Join(folder, name)), append(images, picture)
	}
	index, err := indexImages(m, files)
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	nearest, cosines, err := searchImages(m, index, "cat un", 4)
	if err != nil || len(nearest) != 4 {
		t.Fatalf("%v, %v", nearest, err)
	}
	rows, err := m.EncodeImages(images)
	if err != nil {
		t.Fatal(err)
	}
	query, err := m.Encode([]string{"cat un"})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if want := m.Similarity(query[0], row); math.Abs(float64(cosines[i]-want)) > 1e-6 {
			t.Errorf("cosine %d is %v, want %v", i, cosines[i], want)
		}
		if cosines[i] > cosines[nearest[0]] {
			t.Errorf("image %d is nearer than %d", i, nearest[0])
		}
	}
	foldertest.Write(t, folder, "0.png", []byte("no image"))
	if _, err := indexImages(m, files); err == nil || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("error %v, want one that names %s", err, files[0])
	}
}

// TestRedact runs what ExampleModel_Entities shows: without its labels a text is whole.
func TestRedact(t *testing.T) {
	m, err := embed.Open(foldertest.WriteLabelled(t, "BertForTokenClassification", "O", "B-PER",
		"B-LOC"), embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	texts := []string{"", "cat, Zürich un 中!", "cat"}
	redacted, err := redact(m, texts)
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.Entities(texts, embed.First)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, text := range texts {
		back := redacted[i]
		for _, e := range all[i] {
			back = strings.Replace(back, "["+e.Label+"]", text[e.Start:e.End], 1)
			found++
		}
		if back != text {
			t.Errorf("%q is %q, and with its parts back %q", text, redacted[i], back)
		}
	}
	if found == 0 {
		t.Error("there are no entities")
	}
}
