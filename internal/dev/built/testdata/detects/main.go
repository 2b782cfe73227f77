// Command detects asks which CPU this is, as package attn does with the same package.
package main

import (
	"fmt"

	"github.com/klauspost/cpuid/v2"
)

func main() { fmt.Println(cpuid.CPU.Supports(cpuid.AVX2)) }
