package constants

import (
	"fmt"
	"go/types"
	"path/filepath"
)

// Offsets has the offsets of fields, "struct.field", and the sizes of structs, "struct", in bytes
// on 64-bit platforms.
type Offsets map[string]int

// kernelStructs are the files with structs that kernels read, from the repository's root.
var kernelStructs = []string{"internal/kernel/layout.go", "internal/kernel/blockwise/product.go",
	"internal/kernel/triangle/rows.go", "internal/kernel/integers/sums.go",
	"internal/kernel/pairs/call.go", "internal/kernel/elements/combine.go"}

// KernelOffsets lays out the structs that kernels read, of the repository in a folder.
func KernelOffsets(folder string) (Offsets, error) {
	all := Offsets{}
	for _, file := range kernelStructs {
		offsets, err := ReadOffsets(filepath.Join(folder, file))
		if err != nil {
			return nil, err
		}
		for name, at := range offsets {
			if _, twice := all[name]; twice {
				return nil, fmt.Errorf("%s: a second struct %s", file, name)
			}
			all[name] = at
		}
	}
	return all, nil
}

// ReadOffsets lays out the structs of some files of one package. It omits structs with a field
// whose type these files do not define.
func ReadOffsets(paths ...string) (Offsets, error) {
	_, defs, err := definitions(paths...)
	if err != nil {
		return nil, err
	}
	offsets := Offsets{}
	for _, object := range defs {
		if name, ok := object.(*types.TypeName); ok {
			offsets.add(name)
		}
	}
	return offsets, nil
}

// add lays out the type if it is a struct.
func (o Offsets) add(name *types.TypeName) {
	s, ok := name.Type().Underlying().(*types.Struct)
	if !ok || !known(s) {
		return
	}
	sizes := types.SizesFor("gc", "amd64")
	var fields []*types.Var
	for i := range s.NumFields() {
		fields = append(fields, s.Field(i))
	}
	for i, at := range sizes.Offsetsof(fields) {
		o[name.Name()+"."+fields[i].Name()] = int(at)
	}
	o[name.Name()] = int(sizes.Sizeof(s))
}

// known reports whether the size of a type is known: an undefined type would count as a word.
func known(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Kind() != types.Invalid
	case *types.Array:
		return t.Len() >= 0 && known(t.Elem())
	case *types.Struct:
		for i := range t.NumFields() {
			if !known(t.Field(i).Type()) {
				return false
			}
		}
	}
	return true
}

// Get returns the offset of a field or the size of a struct. It panics if there is none, since no
// kernel can be written without it.
func (o Offsets) Get(name string) int {
	x, ok := o[name]
	if !ok {
		panic(fmt.Sprintf("constants: no field or struct %s", name))
	}
	return x
}
