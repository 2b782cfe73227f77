// Command gguf reads and decodes a tensor of a GGUF file only.
package main

import (
	"fmt"
	"os"

	"github.com/seed-1415985d/attn/gguf"
)

func main() {
	f, err := gguf.Open(os.Args[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := f.Tensors[0].Bytes()
	if err != nil {
		fmt.Println(err)
		return
	}
	x := make([]float32, 256)
	fmt.Println(f.Tensors[0].Type.Decode(x, data), x)
}
