package main

import (
	"errors"
	"strconv"
)

// float is a flag of a float32.
type float float32

func (f *float) String() string { return strconv.FormatFloat(float64(*f), 'g', -1, 32) }

func (f *float) Set(text string) error {
	x, err := strconv.ParseFloat(text, 32)
	if err != nil {
		return errors.New("want a number")
	}
	*f = float(x)
	return nil
}
