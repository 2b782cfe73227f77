package npyfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn/internal/npy"
)

// header is the dictionary at the beginning of a file.
type header struct {
	descr     string // type of the elements, as "<f4"
	element   string // the same without the byte order
	bigEndian bool
	fortran   bool // the first dimension is contiguous
	shape     []int
}

// index returns the index of the i-th element of the file, in Python's syntax.
func (h *header) index(i int) string {
	shape := slices.Clone(h.shape)
	if h.fortran {
		slices.Reverse(shape)
	}
	index := Index(shape, i)
	if h.fortran {
		slices.Reverse(index)
	}
	return npy.Tuple(index)
}

// The dictionary is a Python literal, which programs write in different ways.
const (
	descrItem   = `["']descr["']\s*:\s*('[^']*'|"[^"]*"|\[[^\]]*\])`
	fortranItem = `["']fortran_order["']\s*:\s*(True|False)`
	shapeItem   = `["']shape["']\s*:\s*\(([-0-9L,\s]*)\)`
	anyItem     = `\s*(?:` + descrItem + `|` + fortranItem + `|` + shapeItem + `)\s*`
)

var dictionary = regexp.MustCompile(`^\s*\{` + anyItem + `,` + anyItem + `,` + anyItem +
	`,?\s*\}\s*$`)

// mostDimensions is more than NumPy has, and keeps a header within version 1.0.
const mostDimensions = 64

func malformed(text []byte) error { return fmt.Errorf("malformed header: %.200q", text) }

// parseHeader reads the dictionary: its three items in any order, each once.
func parseHeader(text []byte) (h header, err error) {
	m := dictionary.FindSubmatch(text)
	if m == nil {
		return h, malformed(text)
	}
	var descr, fortran, shape []byte
	for i := 1; i < len(m); i += 3 { // the groups of the item that matched
		for j, value := range []*[]byte{&descr, &fortran, &shape} {
			if m[i+j] != nil {
				*value = m[i+j]
			}
		}
	}
	if descr == nil || fortran == nil || shape == nil {
		return h, malformed(text) // one twice
	}
	if descr[0] != '[' {
		descr = descr[1 : len(descr)-1]
	}
	h.descr, h.fortran = string(descr), string(fortran) == "True"
	h.element, h.bigEndian = byteOrder(h.descr)
	if h.shape, err = parseShape(string(shape)); errors.Is(err, strconv.ErrRange) {
		return h, fmt.Errorf("malformed header: shape (%.200s) is too large", shape)
	} else if err != nil {
		return h, malformed(text)
	}
	return h, nil
}

// byteOrder splits a type into its name and its byte order, which may be this machine's.
func byteOrder(descr string) (name string, bigEndian bool) {
	if descr == "" {
		return "", false
	}
	switch descr[0] {
	case '<', '|':
		return descr[1:], false
	case '>':
		return descr[1:], true
	}
	return strings.TrimPrefix(descr, "="), binary.NativeEndian.Uint16([]byte{1, 0}) != 1
}

var errNoTuple = errors.New("not a tuple")

// parseShape reads the inside of a tuple: "", "5,", "2, 3" or "2, 3,".
func parseShape(text string) (shape []int, err error) {
	items := strings.Split(text, ",")
	if last := len(items) - 1; strings.TrimSpace(items[last]) == "" {
		items = items[:last]
	} else if last == 0 {
		return nil, errNoTuple // "(5)" is a number
	}
	if len(items) > mostDimensions {
		return nil, errNoTuple
	}
	for _, item := range items {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(item), "L")) // L: Python 2
		if err != nil {
			return nil, err
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// check refuses types that this package does not read, and files whose size differs from the
// header's.
func (h *header) check(want string, takes func(kind) bool, size int64) error {
	t, known := elementTypes[h.element]
	if !known || !takes(t.kind) {
		return fmt.Errorf("elements are %.40q, want %s", h.descr, want)
	}
	for _, n := range h.shape {
		if n < 0 {
			return fmt.Errorf("malformed header: shape %v", h.shape)
		}
	}
	n := elements(h.shape)
	if n < 0 || n > math.MaxInt/8 {
		return fmt.Errorf("malformed header: shape %v is too large", h.shape)
	}
	switch need := n * int64(t.size); {
	case size < need:
		return fmt.Errorf("truncated: shape %v needs %d bytes, the file has %d", h.shape, need, size)
	case size > need:
		return fmt.Errorf("malformed: bytes after the array: shape %v needs %d bytes, the file has %d",
			h.shape, need, size)
	}
	return nil
}

// elements returns the product of the dimensions, −1 if it overflows.
func elements(shape []int) int64 {
	n := int64(1)
	if slices.Contains(shape, 0) {
		return 0
	}
	for _, d := range shape {
		if n > math.MaxInt64/int64(d) {
			return -1
		}
		n *= int64(d)
	}
	return n
}
