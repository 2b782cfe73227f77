package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/seed-1415985d/attn/internal/progress"
	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// imageFolder writes a small model of images.
func imageFolder(t *testing.T, m foldertest.Images) string {
	t.Helper()
	folder := t.TempDir()
	m.Write(t, folder)
	return folder
}

// painted is a picture that depends on a number.
func painted(seed, w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range m.Pix {
		m.Pix[i] = byte(i * (i + 7*seed + 1) >> 3)
	}
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255
	}
	return m
}

// webp is an image of 1 × 1 pixels, lossless.
const webp = "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11" +
	"\x11\x88\x88\xfe\x07\x00"

// pictures writes pictures of each format to a folder, and returns their names.
func pictures(t *testing.T) (folder string, names []string) {
	t.Helper()
	folder = t.TempDir()
	encoders := map[string]func(io.Writer, image.Image) error{"a.png": png.Encode,
		"deep/er/b.JPG": func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) },
		"deep/c.gif":    func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) },
		"d.bmp":         bmp.Encode, "é.tiff": func(w io.Writer, m image.Image) error {
			return tiff.Encode(w, m, nil)
		}, "e.webp": func(w io.Writer, _ image.Image) error {
			_, err := io.WriteString(w, webp)
			return err
		}}
	i := 0
	for name, encode := range encoders {
		var data bytes.Buffer
		if err := encode(&data, painted(i, 13+i, 20-i)); err != nil {
			t.Fatal(err)
		}
		foldertest.Write(t, folder, filepath.FromSlash(name), data.Bytes())
		names = append(names, filepath.Join(folder, filepath.FromSlash(name)))
		i++
	}
	foldertest.Write(t, folder, "notes.txt", []byte("no image"))
	slices.Sort(names)
	return folder, names
}

// vectorsOf are the vectors that the package computes of files, each alone.
func vectorsOf(t *testing.T, m *embed.Model, names []string) (rows [][]float32) {
	t.Helper()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		picture, _, err := image.Decode(f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		row, err := m.EncodeImages([]image.Image{picture})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row...)
	}
	return rows
}

// broken adds files that cannot be read to a folder, and returns their names with what is said.
func broken(t *testing.T, folder string) map[string]string {
	t.Helper()
	var data bytes.Buffer
	if err := png.Encode(&data, painted(1, 30, 30)); err != nil {
		t.Fatal(err)
	}
	foldertest.Write(t, folder, "half.png", data.Bytes()[:data.Len()/2])
	foldertest.Write(t, folder, "text.jpeg", []byte("no picture"))
	foldertest.Write(t, folder, "empty.gif", nil)
	said := map[string]string{"half.png": "png: invalid format", "text.jpeg": "unknown format",
		"empty.gif": "unknown format"}
	if runtime.GOOS != "windows" {
		err := os.Symlink(filepath.Join(folder, "nowhere"), filepath.Join(folder, "link.png"))
		if err != nil {
			t.Fatal(err)
		}
		said["link.png"] = "link.png: no such file"
	}
	return said
}

// TestImages has the similarities of the package, sorted, and names what cannot be read.
func TestImages(t *testing.T) {
	model := imageFolder(t, foldertest.CLIP("quick_gelu"))
	folder, names := pictures(t)
	m, err := embed.Open(model, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rows := vectorsOf(t, m, names)
	text, err := m.Encode([]string{"cat un"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags string
		query []float32
	}{{"-query|cat un", text[0]}, {"-like|" + names[2], rows[2]}} {
		var want []string
		scores := make([]float32, len(rows))
		for i, row := range rows {
			scores[i] = m.Similarity(c.query, row)
		}
		for _, x := range ranked(names, scores, len(names)) {
			want = append(want, fmt.Sprintf("%8.4f  %s\n", x.Score, x.Label))
		}
		args := append([]string{"images", folder, "-model", model}, strings.Split(c.flags, "|")...)
		var out, errs strings.Builder
		if code := command(args, nil, &out, &errs); code != 0 || errs.Len() > 0 ||
			out.String() != strings.Join(want, "") {
			t.Errorf("%q: exit code %d, printed\n%s%s\nwant\n%s", args, code, &out, &errs,
				strings.Join(want, ""))
		}
		out.Reset()
		args = append([]string{"images", "-k", "2", "-workers", "3"}, append(args[2:], "--", folder)...)
		if code := command(args, nil, &out, &errs); code != 0 || out.String() != want[0]+want[1] {
			t.Errorf("%q: exit code %d, printed\n%s%s\nwant the first 2 of\n%s", args, code, &out, &errs,
				strings.Join(want, ""))
		}
	}

	said := broken(t, folder)
	var out, errs strings.Builder
	args := []string{"images", "-json", "-k", "1", "-query", "cat un", folder, "-model", model}
	if code := command(args, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d, %s", code, &errs)
	}
	var got struct {
		Query, Measure string
		Results        []near
		Unread         []failure
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Query != "cat un" ||
		got.Measure != "cosine" || len(got.Results) != 1 || len(got.Unread) != len(said) {
		t.Errorf("%v in %s, want 1 result and %d that cannot be read", err, &out, len(said))
	}
	if r := got.Results[0]; r.Similarity != m.Similarity(text[0], rows[slices.Index(names, r.Path)]) {
		t.Errorf("the similarity is %v, and not the package's", r)
	}
	for name, text := range said {
		path := filepath.Join(folder, name)
		if !strings.Contains(errs.String(), "attn-embed images: "+path+": ") ||
			!strings.Contains(errs.String(), text) {
			t.Errorf("standard error:\n%s\nwant %s and %q", &errs, path, text)
		}
	}
	count := fmt.Sprintf("%d of %d files could not be read\n", len(said), len(said)+len(names))
	if !strings.HasSuffix(errs.String(), count) {
		t.Errorf("standard error:\n%s\nwant %s", &errs, count)
	}
}

// TestImageClasses has the probabilities of the package.
func TestImageClasses(t *testing.T) {
	model := imageFolder(t, foldertest.ViT())
	folder, names := pictures(t)
	m, err := embed.Open(model, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rows, err := m.ClassifyImages([]image.Image{painted(0, 12, 12)})
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if err := png.Encode(&data, painted(0, 12, 12)); err != nil {
		t.Fatal(err)
	}
	foldertest.Write(t, folder, "0.png", data.Bytes())
	want := ranked(m.Labels(), rows[0], 3)
	var out, errs strings.Builder
	args := []string{"images", "-json", "-classify", "-k", "9", folder, "-model", model}
	if code := command(args, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d, %s", code, &errs)
	}
	var got struct{ Results []labelledImage }
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil ||
		len(got.Results) != len(names)+1 || !slices.Equal(got.Results[0].Labels, want) {
		t.Errorf("%v in %s, want %v first", err, &out, want)
	}
	out.Reset()
	line := fmt.Sprintf("%.4f %s %s", want[0].Score, want[0].Label, filepath.Join(folder, "0.png"))
	args = []string{"images", "-classify", "-model", model, filepath.Join(folder, "0.png"), folder}
	if code := command(args, nil, &out, &errs); code != 0 ||
		strings.Count(out.String(), "\n") != len(names)+2 ||
		strings.Join(strings.Fields(out.String())[:3], " ") != line {
		t.Errorf("exit code %d, printed\n%s%s\nwant first\n%s", code, &out, &errs, line)
	}
}

// TestImagesRefused names what does not fit, and prints no results.
func TestImagesRefused(t *testing.T) {
	clip, vit := imageFolder(t, foldertest.CLIP("gelu")), imageFolder(t, foldertest.ViT())
	bert := foldertest.WriteLabelled(t, "BertForTokenClassification", "O")
	folder, names := pictures(t)
	empty, bad := t.TempDir(), t.TempDir()
	broken(t, bad)
	for _, c := range []struct {
		args, want string
		status     int
	}{
		{folder, "0 of -query, -like and -classify are there, want one", 2},
		{folder + " -query|x -classify", "2 of -query, -like and -classify are there, want one", 2},
		{"-query|x", "there is no path, want images or folders of images", 2},
		{folder + " -query|x -k 0", "-k is 0, want 1 or more", 2},
		{folder + " -query|x -workers 0", "-workers is 0, want 1 to 4096", 2},
		{folder + " -quary|x", "flag provided but not defined: -quary", 2},
		{folder + " -query|x -json=3", "invalid boolean value", 2},
		{"no/such/folder -query|x", "no such file", 1},
		{empty + " -query|x", "want files that end in .jpg, .jpeg, .png, .gif", 1},
		{folder + " -query|x -model " + vit, "-query: " + vit + " has a model that reads images only", 1},
		{folder + " -query|x -model " + bert, "it reads texts only, want a model of images", 1},
		{folder + " -classify -model " + clip, "it has no head that classifies images", 1},
		{folder + " -like " + names[0] + "x", "no such file", 1},
		{folder + " -like " + folder, "it is no regular file", 1},
		{bad + " -query|x", "files could be read", 1},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "|", "=")
		}
		if !slices.Contains(args, "-model") {
			args = append(args, "-model", clip)
		}
		var out, errs strings.Builder
		code := command(append([]string{"images"}, args...), nil, &out, &errs)
		if code != c.status || !strings.Contains(errs.String(), c.want) || out.Len() > 0 ||
			!strings.HasPrefix(errs.String(), "attn-embed images: ") {
			t.Errorf("%q: exit code %d, %q, printed %q, want %d and %q", args, code, &errs, &out, c.status,
				c.want)
		}
	}
	var out, errs strings.Builder
	if code := command([]string{"images", "-h"}, nil, &out, &errs); code != 0 ||
		!strings.Contains(out.String(), "-k images\n") {
		t.Errorf("exit code %d, %s%s", code, &out, &errs)
	}
}

// TestHugeImages refuses them before their pixels have memory.
func TestHugeImages(t *testing.T) {
	var data bytes.Buffer
	wide := image.NewPaletted(image.Rect(0, 0, mostSide+1, 1), color.Palette{color.Black})
	if err := png.Encode(&data, wide); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	foldertest.Write(t, folder, "wide.png", data.Bytes())
	f := &file{path: filepath.Join(folder, "wide.png")}
	if readBatch([]*file{f}, 2); f.err == nil || f.image != nil ||
		!strings.Contains(f.err.Error(), "it has 16385 × 1 pixels, want sides of 1 to 16384") {
		t.Errorf("error %v", f.err)
	}
}

// TestBatches reads as many images at a time as fit into memory.
func TestBatches(t *testing.T) {
	folder, all := t.TempDir(), []*file{}
	var data bytes.Buffer
	big := image.NewPaletted(image.Rect(0, 0, 8000, 6000), color.Palette{color.Black})
	if err := png.Encode(&data, big); err != nil {
		t.Fatal(err)
	}
	foldertest.Write(t, folder, "big.png", data.Bytes())
	for range 3 {
		all = append(all, &file{path: filepath.Join(folder, "big.png")})
	}
	for len(all) > 0 {
		n := len(readBatch(all, 2))
		if n != 1 || all[0].err != nil || all[0].image == nil {
			t.Fatalf("%d images of 48 million pixels at a time, want 1, %v", n, all[0].err)
		}
		all = all[n:]
	}
}

// TestImagesProgress shows a bar, for long work.
func TestImagesProgress(t *testing.T) {
	defer func(d time.Duration) { progress.After = d }(progress.After)
	progress.After = 0
	folder, _ := pictures(t)
	var out, errs strings.Builder
	args := []string{"images", folder, "-model", imageFolder(t, foldertest.ViT()), "-classify"}
	if code := command(args, nil, &out, &errs); code != 0 ||
		!strings.Contains(errs.String(), "images: 0%") && !strings.Contains(errs.String(), "%\n") {
		t.Errorf("exit code %d, %q", code, &errs)
	}
}
