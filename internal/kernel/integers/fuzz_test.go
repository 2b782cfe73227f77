package integers

import (
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// fuzzKernel compares the kernel of a name with its generic twin.
func fuzzKernel(f *testing.F, name string) { kerneltest.FuzzOneOf(f, kernelTests, name) }
