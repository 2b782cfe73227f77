package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/gauge"
)

// input is what a request wants vectors of: texts, and images as data URLs.
type input struct {
	all  []string
	list bool // or one alone
}

// name is what errors call an element.
func (in *input) name(i int) string {
	if !in.list {
		return "input"
	}
	return fmt.Sprintf("input[%d]", i)
}

// reads is what a model makes vectors of.
type reads struct{ texts, images bool }

// readsOf asks a model, which is an error if it makes no vectors.
func readsOf(m *embed.Model) (r reads, err error) {
	r.texts = m.MaxTokens() > 0
	if r.texts {
		if _, err := m.Encode([]string{"text"}); err != nil {
			return r, err
		}
	}
	_, err = m.EncodeImages([]image.Image{image.NewGray(image.Rect(0, 0, 1, 1))})
	if r.images = err == nil; r.texts {
		err = nil // that it reads no images
	}
	return r, err
}

// picture is an image in a request, before it is decoded.
type picture struct {
	at     int // of the input
	name   string
	data   []byte
	pixels int
	codec
}

// codec reads images of a type.
type codec struct {
	size   func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var codecs = map[string]codec{"image/png": {png.DecodeConfig, png.Decode},
	"image/jpeg": {jpeg.DecodeConfig, jpeg.Decode}}

// divide returns the texts of an input with their places, and the images.
func (in *input) divide(r reads) (texts []string, places []int, pictures []picture, err error) {
	const scheme = "data:image/"
	for i, text := range in.all {
		picked := len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme)
		name := in.name(i)
		switch {
		case picked && !r.images:
			return nil, nil, nil, invalid(name, "%s is an image, and the model reads texts only", name)
		case !picked && !r.texts:
			return nil, nil, nil, invalid(name, "%s is a text, and the model reads images only, want "+
				"data:image/png;base64,… or data:image/jpeg;base64,…", name)
		case !picked:
			texts, places = append(texts, text), append(places, i)
			continue
		}
		p := picture{at: i, name: name}
		if err := p.read(text); err != nil {
			return nil, nil, nil, invalid(name, "%s: %s", name, err.Error())
		}
		pictures = append(pictures, p)
	}
	return texts, places, pictures, nil
}

// Bounds of an image: pixels of a side, as package embed has it, and of all, which are decoded in
// memory.
const mostSide, mostPixels = 1 << 14, 1 << 24

// read reads a data URL, and the size of its image.
func (p *picture) read(url string) error {
	head, data, found := strings.Cut(url, ",")
	kind, coded := strings.CutSuffix(strings.TrimPrefix(strings.ToLower(head), "data:"), ";base64")
	var known bool
	if p.codec, known = codecs[kind]; !known || !coded || !found {
		return fmt.Errorf("it begins with %q, want data:image/png;base64, or data:image/jpeg;base64,",
			shortText(head))
	}
	var err error
	if p.data, err = base64.StdEncoding.DecodeString(data); err != nil {
		return err
	}
	c, err := p.size(bytes.NewReader(p.data))
	if err != nil {
		return fmt.Errorf("it is no image of type %s: %w", kind, err)
	}
	if p.pixels = c.Width * c.Height; min(c.Width, c.Height) < 1 ||
		max(c.Width, c.Height) > mostSide || p.pixels > mostPixels {
		return fmt.Errorf("it has %d × %d pixels, want sides of 1 to %d, and at most %d pixels", c.Width,
			c.Height, mostSide, mostPixels)
	}
	return nil
}

// together is how many images are decoded and computed at a time: those that have few pixels.
func together(pictures []picture) (n int) {
	const most = 16
	pixels := 0
	for n < min(most, len(pictures)) {
		if pixels += pictures[n].pixels; n > 0 && pixels > mostPixels {
			break
		}
		n++
	}
	return n
}

// encodeImages writes the vectors of images to their places. It ends between images if ctx is done.
func (s *Server) encodeImages(ctx context.Context, rows [][]float32, pictures []picture) error {
	for len(pictures) > 0 {
		n := together(pictures)
		images := make([]image.Image, n)
		for i := range images {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			p := &pictures[i]
			var err error
			if images[i], err = p.decode(bytes.NewReader(p.data)); err != nil {
				return invalid(p.name, "%s: its image is damaged: %v", p.name, err)
			}
		}
		vectors, err := s.Embed.EncodeImages(images)
		if err != nil {
			return err
		}
		for i := range vectors {
			rows[pictures[i].at] = vectors[i]
		}
		pictures = pictures[n:]
	}
	return nil
}

// encodeInput returns a vector for each text and image of an input.
func (s *Server) encodeInput(ctx context.Context, n int, texts []string, places []int,
	pictures []picture) ([][]float32, error) {
	rows := make([][]float32, n)
	if len(texts) > 0 {
		gauge.Of(ctx).Places = places
		vectors, err := s.Embed.EncodeContext(ctx, texts)
		if err != nil {
			return nil, err
		}
		for i, at := range places {
			rows[at] = vectors[i]
		}
	}
	return rows, s.encodeImages(ctx, rows, pictures)
}
