module github.com/seed-1415985d/attn/gen

go 1.26

require (
	github.com/mmcloughlin/avo v0.5.0
	github.com/seed-1415985d/attn v0.1.0
)

require (
	golang.org/x/mod v0.23.0 // indirect
	golang.org/x/sync v0.11.0 // indirect
	golang.org/x/tools v0.30.0 // indirect
)
