//go:build generate

package attn

// `go generate` in this folder writes all assembly, each file only when it is complete: gen/ and
// asm/ say how.

//go:generate go run ./gen -out kernel_amd64.s
//go:generate go run ./gen -out kernel_typed_amd64.s
//go:generate go run ./gen -out kernel_int8_amd64.s
//go:generate go run ./asm -out kernel_arm64.s
