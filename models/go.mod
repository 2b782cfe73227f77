module github.com/seed-1415985d/attn/models

go 1.26.0

require (
	github.com/KimMachineGun/automemlimit v1.0.1
	github.com/dlclark/regexp2/v2 v2.13.0
	github.com/nlpodyssey/safetensors v0.0.0-20250209183917-bfb01cc25f7c
	github.com/pbnjay/memory v0.0.0-20210728143218-7b4eea64cf58
	github.com/petar-dambovaliev/aho-corasick v0.0.0-20250424160509-463d218d4745
	github.com/rivo/uniseg v0.4.7
	github.com/seed-1415985d/attn v0.1.0
	golang.org/x/text v0.43.0
)

require (
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
