// Command attend calls Attend only.
package main

import (
	"fmt"

	"github.com/seed-1415985d/attn"
)

func main() {
	x := attn.BHLD(make([]float32, 64), 1, 1, 1, 64)
	fmt.Println(attn.Attend(x, x, x, x, nil))
}
