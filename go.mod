module github.com/seed-1415985d/attn

go 1.26

require github.com/klauspost/cpuid/v2 v2.4.2

require golang.org/x/sys v0.42.0
