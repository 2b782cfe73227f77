package tuning

import (
	"strings"
	"testing"
	"time"
)

// ATTN_ISA decides if it names what is possible, and everything else is a mistake.
func TestChoose(t *testing.T) {
	if got := choose("", AVX2, Generic); got != AVX2 {
		t.Errorf("without a name: %v, want the first", got)
	}
	for name, want := range map[string]ISA{"generic": Generic, "avx2": AVX2} {
		if got := choose(name, AVX512, AVX2, Generic); got != want {
			t.Errorf("ATTN_ISA=%s: %v", name, got)
		}
	}
	// Of a newer CPU, of another architecture, unheard of.
	for _, name := range []string{"avx512", "neon", "avx1024"} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				text, _ := recover().(string)
				for _, part := range []string{"ATTN_ISA", name, "avx2", "generic"} {
					if !strings.Contains(text, part) {
						t.Errorf("panic %q does not mention %q", text, part)
					}
				}
			}()
			choose(name, AVX2, Generic)
		})
	}
}

// Every microarchitecture has a row for each implementation that it may run, and rows are complete.
func TestTuningHasARowForEach(t *testing.T) {
	for _, cpu := range []Microarchitecture{Zen3, Zen4, Zen5, Intel, OtherX86, ARM64, AnyCPU} {
		For(cpu, Generic, 0, 0)
	}
	for _, cpu := range []Microarchitecture{Zen4, Zen5, Intel, OtherX86} {
		For(cpu, AVX512, 0, 0)
		For(cpu, AVX2, 0, 0)
	}
	For(Zen3, AVX2, 0, 0)
	For(ARM64, NEON, 0, 0)
	for _, row := range table {
		row = For(row.CPU, row.ISA, 64<<10, 1<<20)
		switch {
		case row.TileRows != MinTileRows && row.TileRows != MaxTileRows,
			row.FewRows < MinTileRows,
			row.MinRows16 < 2, row.MinPacked16 < 2, row.MinTypedRows16 < 2,
			row.PrefetchScaled < row.PrefetchTyped,
			row.PrefetchOne > MostAhead, row.PrefetchFew+row.PrefetchRun > MostAhead,
			row.MaxPagedRows > 0 && row.MinPagedRows < 1,
			row.ISA != AVX512 && row.MinRows16 != never,
			row.FlopsPerNs <= 0 || row.BytesPerNs <= 0 || row.SmallCall <= 0 ||
				row.WakingCall < row.SmallCall,
			row.Spin <= 0 || row.Spin > 100*time.Microsecond:
			t.Errorf("the row is not sound: %+v", row)
		}
	}
}

// Tiles of many rows need a large L1 cache on some CPUs; an unknown L2 cache counts as the least of
// all CPUs that have assembly.
func TestTuningFitsCaches(t *testing.T) {
	for _, c := range []struct {
		cpu      Microarchitecture
		l1, l2   int
		rows, at int
	}{
		{Intel, 32 << 10, 1 << 20, MinTileRows, 1 << 20},
		{Intel, 48 << 10, 2 << 20, MaxTileRows, 2 << 20},
		{Intel, -1, -1, MinTileRows, 512 << 10},
		{Zen4, 32 << 10, 1 << 20, MaxTileRows, 1 << 20},
		{Zen3, 48 << 10, 1, MinTileRows, 256 << 10},
	} {
		row := For(c.cpu, AVX2, c.l1, c.l2)
		if row.TileRows != c.rows || row.L2 != c.at {
			t.Errorf("%+v: %d rows and an L2 cache of %d bytes", c, row.TileRows, row.L2)
		}
	}
}

// Chunks of some rows read page by page, always or between two numbers of rows.
func TestPagedRows(t *testing.T) {
	for _, c := range []struct {
		row        Row
		rows, want int
	}{
		{Row{Reads: PagedReads, FewRows: 64}, 1, 64},
		{Row{FewRows: 64}, 2, 0},
		{Row{FewRows: 64, MinPagedRows: 2, MaxPagedRows: 32}, 1, 0},
		{Row{FewRows: 64, MinPagedRows: 2, MaxPagedRows: 32}, 2, 32},
		{Row{Reads: SequentialReads, MinPagedRows: 2, MaxPagedRows: 32}, 2, 0},
	} {
		if got := c.row.PagedRows(c.rows); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Whole blocks are prefetched ahead where the row says so, unless one of them is too much.
func TestAhead(t *testing.T) {
	whole := Row{PrefetchInt8: 8192, WholeBlocks: true}
	for _, c := range []struct {
		row         Row
		block, want int
	}{
		{Row{PrefetchInt8: 8192}, 16896, 8192},
		{whole, 16896, 16896},
		{whole, 8192, 8192},
		{whole, 4608, 2 * 4608},
		{whole, MostAhead, MostAhead},
		{whole, MostAhead + 64, 8192},
	} {
		if got := c.row.Ahead(c.block); got != c.want {
			t.Errorf("blocks of %d bytes, whole %t: %d bytes ahead, want %d", c.block,
				c.row.WholeBlocks, got, c.want)
		}
	}
}
