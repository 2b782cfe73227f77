package blocks_test

import (
	"bytes"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/blocks/blockstest"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// Every byte pattern of a block comes back from a packed block.
func checkBlock(t testing.TB, typ blocks.Type, block []byte, output int) {
	of := typ.Traits()
	packed, again := make([]byte, of.Packed), make([]byte, of.Bytes)
	if ok := blocks.Pack(typ, packed, output, block); !ok {
		if blocks.FaultOfScale(typ, block) == "" {
			t.Fatalf("%v: block %x is not packed, and no scale is wrong", typ, block)
		}
		return
	}
	if blocks.Restore(typ, again, packed, output); !bytes.Equal(again, block) {
		t.Fatalf("%v: block %x came back as %x", typ, block, again)
	}
	for c := range output { // of the scales of these 0 is none in MXFP4
		blocks.Pack(typ, packed, c, block)
	}
	if fault := blocks.FaultOfPacked(typ, packed, output+1); fault != "" {
		t.Fatalf("%v: block %x: %s", typ, block, fault)
	}
}

func TestBlocksComeBack(t *testing.T) {
	blockstest.AnyBlocks(kerneltest.Random(t.Name()), kerneltest.Budget(2000),
		func(typ blocks.Type, block []byte, output int) { checkBlock(t, typ, block, output) })
}

func FuzzBlocks(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte, which, output uint8) {
		typ := blockstest.Types[int(which)%len(blockstest.Types)]
		block := make([]byte, typ.Traits().Bytes)
		copy(block, data)
		checkBlock(t, typ, block, int(output)%blocks.Outputs)
	})
}
