package main

import (
	"errors"
	"os"

	"github.com/seed-1415985d/attn/internal/npy"
)

// writeVectors writes embeddings as a NumPy array with a row for each.
func writeVectors(path string, rows [][]float32) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(npy.Write(f, []int{len(rows), len(rows[0])}, rows...), f.Close())
}
