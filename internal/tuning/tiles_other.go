//go:build !(linux && amd64) || purego

package tuning

// requestTiles: only Linux gives programs the registers of AMX at their request.
func requestTiles() Tiles { return Tiles{Why: "AMX is used on linux/amd64 only"} }
