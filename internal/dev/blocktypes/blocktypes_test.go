package blocktypes

import (
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
)

// Each type in blocks has a row, with kernels of AVX-512 and AVX2.
func TestRows(t *testing.T) {
	var types []blocks.Type
	for _, row := range Rows {
		types = append(types, row.Type)
		if row.Unpack.AVX512 == "" || row.Unpack.AVX2 == "" || row.Few.AVX512 == "" ||
			row.Few.AVX2 == "" {
			t.Errorf("%v has the kernels %+v", row.Type, row)
		}
	}
	slices.Sort(types)
	if want := blocks.Integers(); !slices.Equal(types, want) {
		t.Errorf("rows are of %v, want %v", types, want)
	}
}

// Names are as declared: generated code with other names would not compile.
func TestNames(t *testing.T) {
	if got := TypeName(blocks.Q4_1) + ScalingName(blocks.Floats); got != "blocks.Q4_1blocks.Floats" {
		t.Error(got)
	}
}
