package main

import (
	"errors"
	"os"
	"reflect"

	"github.com/sbinet/npyio/npy"
)

// writeVectors writes embeddings as an array of NumPy's. The library takes its shape from a type,
// so that there is a type for it.
func writeVectors(path string, rows [][]float32) error {
	row := reflect.ArrayOf(len(rows[0]), reflect.TypeFor[float32]())
	array := reflect.New(reflect.ArrayOf(len(rows), row))
	for i := range rows {
		reflect.Copy(array.Elem().Index(i), reflect.ValueOf(rows[i]))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(npy.Write(f, array.Interface()), f.Close())
}
