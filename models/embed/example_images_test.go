package embed_test

import (
	"errors"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"os"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/embed"
)

// Image search: the files whose images are nearest to a text. With Options.Normalize vectors have
// length 1, so products by a matrix of them are cosines. The matrix serves all later queries.
func ExampleModel_EncodeImages() {
	m, err := embed.Open("clip-ViT-B-32", embed.Options{Normalize: true})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	files := []string{"beach.jpg", "bicycle.jpg", "cat.png"}
	index, err := indexImages(m, files)
	if err != nil {
		panic(err)
	}
	defer index.Close()
	nearest, cosines, err := searchImages(m, index, "a red bicycle", 2)
	if err != nil {
		panic(err)
	}
	for _, i := range nearest {
		fmt.Println(cosines[i], files[i])
	}
}

// indexImages returns a matrix with the vector of each image file.
func indexImages(m *embed.Model, files []string) (*attn.Matrix, error) {
	var all []float32
	for _, name := range files { // or in batches, which take less time
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		picture, _, err := image.Decode(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		vectors, err := m.EncodeImages([]image.Image{picture})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, vectors[0]...)
	}
	rows := attn.BHLD(all, 1, 1, len(files), m.Dimensions())
	return attn.PackMatrix(rows, attn.MatrixConfig{Transposed: true})
}

// searchImages returns the k images that are nearest to a text, and the cosine of each image.
func searchImages(m *embed.Model, index *attn.Matrix, query string, k int) (nearest []int32,
	cosines []float32, err error) {
	vectors, err := m.Encode([]string{query})
	if err != nil {
		return nil, nil, err
	}
	_, _, _, files := index.Dims()
	cosines = make([]float32, files)
	row := attn.BHLD(vectors[0], 1, 1, 1, m.Dimensions())
	if err := index.MatMul(attn.BHLD(cosines, 1, 1, 1, files), row, nil); err != nil {
		return nil, nil, err
	}
	nearest = make([]int32, min(k, files))
	return nearest[:attn.TopK(nearest, cosines)], cosines, nil
}
