package gguftest

import (
	"encoding/binary"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// Llama runs libllama, with caches in F32 and without flash attention: it is the path of a program
// whose arguments are a file, the size of the context, the number of tokens in the first batch, and
// the tokens; others follow one at a time. The program writes float32.
type Llama string

// NewLlama returns what ATTN_TEST_LLAMA names, or skips the test.
func NewLlama(t testing.TB) Llama {
	l := Llama(os.Getenv("ATTN_TEST_LLAMA"))
	if l == "" {
		t.Skip("ATTN_TEST_LLAMA names no program")
	}
	return l
}

// Run returns the logits after each token, or with EMBED=1 in the environment the vector or the
// scores of the text.
func (l Llama) Run(t testing.TB, path string, first int, tokens []int32, environment ...string,
) []float32 {
	t.Helper()
	args := []string{path, "1024", strconv.Itoa(first)}
	for _, token := range tokens {
		args = append(args, strconv.Itoa(int(token)))
	}
	command := exec.Command(string(l), args...)
	command.Env = append(os.Environ(), environment...)
	out, err := command.Output()
	x := make([]float32, len(out)/4)
	if err == nil {
		_, err = binary.Decode(out, binary.LittleEndian, x)
	}
	if err != nil {
		t.Fatalf("%s: %v", l, err)
	}
	return x
}
