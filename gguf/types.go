package gguf

import "fmt"

// Type is the type of a tensor's elements, by the number that files have.
type Type uint32

// The types that are known: their names, and the elements and bytes of a block.
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q3_K   Type = 11
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	IQ4_NL Type = 20
	BF16   Type = 30
	MXFP4  Type = 39
)

// info is what is known of a type.
type info struct {
	Name            string
	Elements, Bytes int
}

var types = map[Type]info{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2},
	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20}, Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36}, 10: {"Q2_K", 256, 84}, Q3_K: {"Q3_K", 256, 110},
	Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176}, Q6_K: {"Q6_K", 256, 210},
	15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, IQ4_NL: {"IQ4_NL", 32, 18},
	21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136},
	24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66},
	MXFP4: {"MXFP4", 32, 17}, 40: {"NVFP4", 64, 36},
}

// String returns the type's name, or its number if it is not known.
func (t Type) String() string {
	if i, ok := types[t]; ok {
		return i.Name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns the elements and bytes of a block, 0 for a type that is not known.
func (t Type) Block() (elements, bytes int) { return types[t].Elements, types[t].Bytes }
