// Command softmax calls Softmax only.
package main

import (
	"fmt"

	"github.com/seed-1415985d/attn"
)

func main() {
	x := []float32{1, 2, 3}
	attn.Softmax(x, x)
	fmt.Println(x)
}
