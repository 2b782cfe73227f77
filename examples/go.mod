module github.com/seed-1415985d/attn/examples

go 1.26.0

require github.com/seed-1415985d/attn v0.1.0

require (
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	golang.org/x/sys v0.42.0 // indirect
)
