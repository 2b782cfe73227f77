package memory

import "testing"

// Mappings that nobody closes do not pile up, though they leave the collector next to nothing to
// do. How far they get before they are given back depends on the scheduler: 1 GiB on an idle
// machine, more on a busy one, and all of them if nobody collected.
func TestDroppedMappingsDoNotPileUp(t *testing.T) {
	const each, mappings = 64 << 20, 400
	before, most := Mapped(), int64(0)
	for range mappings {
		m := allocate(t, each)
		m.Bytes()[0] = 1
		most = max(most, Mapped()-before)
	}
	if most > mappings*each/4 {
		t.Errorf("%d MiB are mapped at times, of %d MiB in all", most>>20, mappings*each>>20)
	}
	waitFor(t, func() bool { return Mapped() == before })
}

// Collections are rare: one each time that what is mapped has doubled, and none for what is closed
// again.
func TestCollectionsAreRare(t *testing.T) {
	defer func(mapped, fresh int64) {
		paces.mapped, paces.fresh = mapped, fresh
	}(paces.mapped, paces.fresh)
	paces.mapped, paces.fresh = 0, 0
	collections := 0
	for range 64 {
		for _, bytes := range []int64{minFresh / 2, minFresh / 4, -minFresh / 4, minFresh / 4,
			-minFresh / 4} {
			if count(bytes) {
				collections++
			}
		}
	}
	if collections < 4 || collections > 6 { // from minFresh to 32 times as much
		t.Errorf("%d collections, want 5 or so", collections)
	}
}
