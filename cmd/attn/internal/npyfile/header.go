package npyfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/sbinet/npyio/npy"
)

// header is what the dictionary at the beginning of a file says.
type header struct {
	descr   string // type of the elements, as "<f4"
	fortran bool
	shape   []int
}

// The dictionary is a Python literal. NumPy spells it in one way, other programs do in others.
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
	for i := 1; i < len(m); i += 3 { // the groups of an item, of which one matched
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
	h.descr, h.fortran = withOrder(string(descr)), string(fortran) == "True"
	var ok bool
	if h.shape, ok = parseShape(string(shape)); !ok {
		return h, malformed(text)
	}
	return h, nil
}

// withOrder spells out the byte order of this machine where the type leaves it to that.
func withOrder(descr string) string {
	rest, native := strings.CutPrefix(descr, "=")
	if !native && descr != "f4" && descr != "f8" {
		return descr
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return "<" + rest
	}
	return ">" + rest
}

// parseShape reads the inside of a tuple: "", "5,", "2, 3" or "2, 3,".
func parseShape(text string) (shape []int, ok bool) {
	items := strings.Split(text, ",")
	if last := len(items) - 1; strings.TrimSpace(items[last]) == "" {
		items = items[:last]
	} else if last == 0 {
		return nil, false // "(5)" is a number and no tuple
	}
	if len(items) > mostDimensions {
		return nil, false
	}
	for _, item := range items {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(item), "L")) // L: Python 2
		if err != nil {
			return nil, false
		}
		shape = append(shape, n)
	}
	return shape, true
}

// check refuses what this package does not read, and files in which the elements do not take the
// size that the header says.
func (h *header) check(want string, types []string, size int64) error {
	known := false
	for _, t := range types {
		known = known || baseType(h.descr) == t
	}
	if !known {
		return fmt.Errorf("elements are %.40q, want %s", h.descr, want)
	}
	if h.fortran {
		return errors.New("array is in Fortran order, want C order (numpy.ascontiguousarray)")
	}
	for _, n := range h.shape {
		if n < 0 {
			return fmt.Errorf("malformed header: shape %v", h.shape)
		}
	}
	n := elements(h.shape)
	if n < 0 || n > math.MaxInt64/8 {
		return fmt.Errorf("malformed header: shape %v is too large", h.shape)
	}
	switch need := n * int64(elementSize(h.descr)); {
	case size < need:
		return fmt.Errorf("truncated: shape %v needs %d bytes, the file has %d", h.shape, need, size)
	case size > need:
		return fmt.Errorf("malformed: bytes after the array: shape %v needs %d bytes, the file has %d",
			h.shape, need, size)
	}
	return nil
}

// bytes is the header as NumPy writes it, in version 1.0. Its length is a multiple of 64, so that
// the elements are aligned when the file is mapped into memory.
func (h *header) bytes() []byte {
	var dims strings.Builder
	for _, n := range h.shape {
		fmt.Fprintf(&dims, "%d, ", n)
	}
	list := strings.TrimSuffix(dims.String(), " ") // (2,) but (2, 3)
	if len(h.shape) > 1 {
		list = strings.TrimSuffix(list, ",")
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", h.descr, list)
	const fixed = len(npy.Magic) + 4
	pad := 63 - (fixed+len(dict))%64
	dict += strings.Repeat(" ", pad) + "\n"

	b := append(npy.Magic[:len(npy.Magic):len(npy.Magic)], 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	return append(b, dict...)
}
