package blocks_test

import (
	"bytes"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/blocks/blockstest"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// Every byte pattern of a block comes back from a packed block, and nothing of it from its
// neighbours.
func checkBlock(t testing.TB, typ blocks.Type, block []byte, output int) {
	of := typ.Traits()
	packed, file := make([]byte, of.Packed), make([]byte, blocks.Outputs*of.Bytes)
	at := file[output*of.Bytes:][:of.Bytes]
	copy(at, block)
	if !blocks.Pack(typ, packed, file[:(output+1)*of.Bytes], output+1) {
		if blocks.FaultOfScale(typ, block) == "" {
			t.Fatalf("%v: block %x is not packed, and no scale is wrong", typ, block)
		}
		return
	}
	if fault := blocks.FaultOfPacked(typ, packed, output+1); fault != "" {
		t.Fatalf("%v: block %x: %s", typ, block, fault)
	}
	again := make([]byte, of.Bytes)
	for c := range output + 1 {
		want := file[c*of.Bytes:][:of.Bytes]
		if blocks.Restore(typ, again, packed, c); !bytes.Equal(again, want) {
			t.Fatalf("%v: block %x of output %d came back as %x", typ, want, c, again)
		}
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

// BenchmarkPack packs a panel of 16 outputs, and says how many bytes of the file a second.
func BenchmarkPack(b *testing.B) {
	const inputs = 1536
	for _, typ := range blockstest.Types {
		b.Run(typ.String(), func(b *testing.B) {
			of := typ.Traits()
			n := inputs / of.Inputs
			packed, file := make([]byte, n*of.Packed), make([]byte, n*blocks.Outputs*of.Bytes)
			b.SetBytes(int64(len(file)))
			for b.Loop() {
				blocks.Pack(typ, packed, file, blocks.Outputs)
			}
		})
	}
}

// Sizes of the table follow from what blocks have.
func TestTypes(t *testing.T) {
	for _, typ := range blocks.Integers() {
		of := typ.Traits()
		packed := of.Header() + of.Inputs/blocks.Inputs*of.Part()
		if of.Codes == blocks.Trits {
			packed = of.Header() + 13*4*blocks.Outputs
		}
		if of.Packed != packed {
			t.Errorf("a packed block of %v has %d bytes, want %d", typ, of.Packed, packed)
		}
		if of.Codes == blocks.FourBits && of.Levels == nil && of.Less != 0 {
			t.Errorf("%v has codes less %d and no levels", typ, of.Less)
		}
	}
}
