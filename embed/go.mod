module github.com/seed-1415985d/attn/embed

go 1.26.0

require (
	github.com/dlclark/regexp2 v1.12.0
	github.com/nlpodyssey/safetensors v0.0.0-20250209183917-bfb01cc25f7c
	github.com/petar-dambovaliev/aho-corasick v0.0.0-20250424160509-463d218d4745
	github.com/rivo/uniseg v0.4.7
	github.com/seed-1415985d/attn v0.1.0
	golang.org/x/text v0.43.0
)

require (
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	golang.org/x/sys v0.42.0 // indirect
)
