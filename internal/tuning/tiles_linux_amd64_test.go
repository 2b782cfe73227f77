//go:build !purego

package tuning

import "testing"

// Below the emulator, tiles are available wherever their kernels can run otherwise.
func TestEmulatedTiles(t *testing.T) {
	defer func(before string) { emulatedTiles = before }(emulatedTiles)
	emulatedTiles = "yes"
	if got := requestTiles(); got.Why != "AMX is emulated" {
		t.Errorf("%+v", got)
	}
}
