package main

import (
	"fmt"
	"image"
	"io"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/progress"
	"github.com/seed-1415985d/attn/models/embed"
)

const imagesAbout = `attn-embed images PATH... -model FOLDER -query TEXT [flags]

Lists the images that are nearest to a text or another image, with their similarity; or with
-classify the labels of each. A path is an image, or a folder with .jpg, .jpeg, .png, .gif, .webp,
.bmp, .tif and .tiff, in folders below, too. Paths stand before or after flags; what follows -- is
paths. Files that cannot be read are named on the standard error, and left out.

`

// imagesFlags are of attn-embed images.
type imagesFlags struct {
	*modelFlags
	query, like string
	classify    bool
	most        int
}

func parseImages(args []string, s *streams) (f *imagesFlags, paths []string, err error) {
	f = &imagesFlags{modelFlags: newModelFlags(imagesAbout, "CLIP, SigLIP, DINOv2 or ViT")}
	f.StringVar(&f.query, "query", "", "`text` that images are compared with, by CLIP or SigLIP")
	f.StringVar(&f.like, "like", "", "image `file` that images are compared with")
	f.BoolVar(&f.classify, "classify", false, "print labels of images, by a ViTForImageClassification")
	f.IntVar(&f.most, "k", 10, "most `images`, or with -classify labels of each (default 10, or 1)")
	f.Lookup("k").DefValue = "0" // which help does not print
	if paths, err = f.parsePaths(args, s.out); err != nil {
		return f, nil, err
	}
	asked := 0
	for _, name := range []string{"query", "like", "classify"} {
		if f.given(name) {
			asked++
		}
	}
	switch {
	case asked != 1:
		return f, nil, flags.Errorf("%d of -query, -like and -classify are there, want one", asked)
	case len(paths) == 0:
		return f, nil, flags.Errorf("there is no path, want images or folders of images")
	case f.most < 1:
		return f, nil, flags.Errorf("-k is %d, want 1 or more", f.most)
	case !f.given("k") && f.classify:
		f.most = 1
	}
	return f, paths, nil
}

// answer is what becomes of images, as JSON has it.
type answer struct {
	Query   string    `json:"query,omitempty"`
	Like    string    `json:"like,omitempty"`
	Measure string    `json:"measure,omitempty"`
	Results any       `json:"results"`
	Unread  []failure `json:"unread"`
}

// near is an image with its similarity.
type near struct {
	Path       string  `json:"path"`
	Similarity float32 `json:"similarity"`
}

// labelledImage is an image with its labels.
type labelledImage struct {
	Path   string  `json:"path"`
	Labels []score `json:"labels"`
}

func images(args []string, s *streams) error {
	f, paths, err := parseImages(args, s)
	if err != nil {
		return err
	}
	files, err := findImages(paths)
	if err != nil {
		return err
	}
	m, err := f.open()
	if err != nil {
		return err
	}
	defer m.Close()
	a := &answer{Query: f.query, Like: f.like, Unread: []failure{}}
	if f.classify {
		err = f.labelImages(m, files, a, s)
	} else {
		err = f.nearest(m, files, a, s)
	}
	if err != nil {
		return err
	}
	return f.report(s, a, len(files))
}

// nearest gathers the images that are nearest to the query.
func (f *imagesFlags) nearest(m *embed.Model, files []*file, a *answer, s *streams) error {
	query, err := f.vector(m)
	if err != nil {
		return err
	}
	var paths []string
	var scores []float32
	err = f.each(files, a, s, m.EncodeImages, func(path string, row []float32) {
		paths, scores = append(paths, path), append(scores, m.Similarity(query, row))
	})
	at := make([]int32, min(f.most, len(scores)))
	attn.TopK(at, scores)
	list := make([]near, len(at))
	for i, j := range at {
		list[i] = near{paths[j], scores[j]}
	}
	a.Measure, a.Results = m.Comparison(), list
	return err
}

// vector returns the vector that images are compared with.
func (f *imagesFlags) vector(m *embed.Model) ([]float32, error) {
	if _, err := m.EncodeImages(nil); err != nil {
		return nil, err // it reads texts only
	}
	var rows [][]float32
	var err error
	if !f.given("like") {
		if m.MaxTokens() == 0 {
			return nil, fmt.Errorf("-query: %s has a model that reads images only, want -like", f.path)
		}
		rows, err = m.Encode([]string{f.query})
	} else {
		picture := &file{path: f.like}
		picture.measure()
		if picture.decode(); picture.err != nil {
			return nil, fmt.Errorf("-like %s: %w", f.like, picture.err)
		}
		rows, err = m.EncodeImages([]image.Image{picture.image})
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// labelImages gathers the labels of images.
func (f *imagesFlags) labelImages(m *embed.Model, files []*file, a *answer, s *streams) error {
	if _, err := m.ClassifyImages(nil); err != nil {
		return err // it has no labels
	}
	list, names := []labelledImage{}, m.Labels()
	err := f.each(files, a, s, m.ClassifyImages, func(path string, row []float32) {
		list = append(list, labelledImage{path, ranked(names, row, f.most)})
	})
	a.Results = list
	return err
}

// each computes a row of numbers for each image that can be read, batch by batch.
func (f *imagesFlags) each(files []*file, a *answer, s *streams,
	compute func([]image.Image) ([][]float32, error), use func(path string, row []float32)) error {
	bar := progress.New(s.bar, "images", len(files))
	defer bar.Finish()
	for len(files) > 0 {
		batch := readBatch(files, f.Workers)
		var pictures []image.Image
		var paths []string
		for _, x := range batch {
			if x.err != nil {
				a.Unread = append(a.Unread, failure{x.path, x.err.Error()})
				continue
			}
			pictures, paths = append(pictures, x.image), append(paths, x.path)
			x.image = nil // memory for the next ones
		}
		rows, err := compute(pictures)
		if err != nil {
			return err
		}
		for i, row := range rows {
			use(paths[i], row)
		}
		bar.Add(len(batch))
		files = files[len(batch):]
	}
	return nil
}

// report prints the results, and on errs what could not be read.
func (f *imagesFlags) report(s *streams, a *answer, files int) error {
	if err := f.print(s.out, a); err != nil {
		return err
	}
	for _, x := range a.Unread {
		fmt.Fprintf(s.errs, "attn-embed images: %s: %s\n", x.Path, x.Error)
	}
	switch n := len(a.Unread); {
	case n == files:
		return fmt.Errorf("none of %d files could be read", n)
	case n > 0:
		fmt.Fprintf(s.errs, "attn-embed images: %d of %d files could not be read\n", n, files)
	}
	return nil
}

func (f *imagesFlags) print(w io.Writer, a *answer) (err error) {
	switch list := a.Results.(type) {
	case []near:
		for i := 0; !f.json && i < len(list) && err == nil; i++ {
			_, err = fmt.Fprintf(w, "%8.4f  %s\n", list[i].Similarity, list[i].Path)
		}
	case []labelledImage:
		width := 0
		for _, x := range list {
			for _, y := range x.Labels {
				width = max(width, widest([]string{y.Label}))
			}
		}
		for i := 0; !f.json && i < len(list); i++ {
			for _, x := range list[i].Labels {
				if _, err = fmt.Fprintf(w, "%8.4f  %-*s  %s\n", x.Score, width, x.Label,
					list[i].Path); err != nil {
					return err
				}
			}
		}
	}
	if f.json {
		err = printJSON(w, a)
	}
	return err
}
