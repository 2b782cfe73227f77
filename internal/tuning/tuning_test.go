package tuning

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ATTN_ISA chooses an implementation that is possible; any other value is an error.
func TestChoose(t *testing.T) {
	if got := choose("", AVX2, Generic); got != AVX2 {
		t.Errorf("without a name: %v, want the first", got)
	}
	for name, want := range map[string]ISA{"generic": Generic, "avx2": AVX2} {
		if got := choose(name, AVX512, AVX2, Generic); got != want {
			t.Errorf("ATTN_ISA=%s: %v", name, got)
		}
	}
	// For a newer CPU, for another architecture, unknown.
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

// Every microarchitecture has a row for each implementation that it may run, and each row is
// complete.
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
		row = For(row.CPU, row.ISA, 64<<10, 1<<20) // which checks it
		switch {
		case row.FewRows < MinTileRows,
			row.PrefetchScaled < row.PrefetchTyped,
			row.MaxPagedRows > 0 && row.MinPagedRows < 1,
			row.ISA != AVX512 && row.MinRows16 != never,
			row.ISA != NEON && row.MaxRoundedRows < 1,
			row.SmallCall <= 0, row.Spin <= 0:
			t.Errorf("the row is not sound: %+v", row)
		}
	}
}

// Check checks each field of a row: whole numbers and flags, times and speeds.
func TestFieldsAreThoseOfARow(t *testing.T) {
	var want, got []string
	row := reflect.TypeFor[Row]()
	for i := range row.NumField() {
		switch row.Field(i).Type.Kind() {
		case reflect.Int, reflect.Int8, reflect.Bool:
			want = append(want, row.Field(i).Name)
		case reflect.Float64, reflect.Int64: // see TestCheckCosts
		default:
			if name := row.Field(i).Name; name != "CPU" {
				t.Errorf("nothing checks %s", name)
			}
		}
	}
	for _, f := range Fields() {
		got = append(got, f.Name)
		var r Row
		for _, value := range []int{f.Least, f.Most} {
			if f.Set(&r, value); f.Of(&r) != value || !f.Takes(value) {
				t.Errorf("%s is %d, want the bound %d", f.Name, f.Of(&r), value)
			}
		}
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("fields are %q, want %q", got, want)
	}
}

// A value that no kernel is made for is refused, with the field, the value and the values allowed:
// one row computes nothing in kernels with 16 lanes, whose smallest tiles have two.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(row *Row)
		want   string
	}{
		{func(row *Row) { row.MinRows16 = 1 }, "MinRows16 is 1, want at least 2"},
		{func(row *Row) { row.MinRows16 = 0 }, "MinRows16 is 0, want at least 2"},
		{func(row *Row) { row.MinPacked16 = 1 }, "MinPacked16 is 1, want at least 2"},
		{func(row *Row) { row.MinTypedRows16 = 1 }, "MinTypedRows16 is 1, want at least 2"},
		{func(row *Row) { row.MinHalfRows16 = 1 }, "MinHalfRows16 is 1, want at least 2"},
		{func(row *Row) { row.MinInt8Rows16 = -1 }, "MinInt8Rows16 is -1, want at least 0"},
		{func(row *Row) { row.TileRows = 64 }, "TileRows is 64, want 48 or 96"},
		{func(row *Row) { row.Reads = 3 }, "Reads is 3, want 0 to 2"},
		{func(row *Row) { row.ISA = -1 }, "ISA is -1, want 0 to 3"},
		{func(row *Row) { row.PrefetchOne = MostAhead + 1 }, "PrefetchOne is 32769, want 0 to 32768"},
		{func(row *Row) { row.PrefetchTyped = -64 }, "PrefetchTyped is -64, want 0 to 32768"},
		{func(row *Row) { row.PrefetchRun = 32000 },
			"PrefetchRun is 32000, want at most 32768 with PrefetchFew, which is 8192"},
		{func(row *Row) { row.L2 = -1 }, "L2 is -1, want at least 0"},
		{func(row *Row) { row.ISA, row.DotProduct = Generic, true },
			"DotProduct is true, want false: there are no such kernels, or not on this machine"},
	} {
		row := For(Intel, AVX512, 0, 0)
		c.change(&row)
		if err := row.Check(); err == nil || !strings.HasSuffix(err.Error(), ": "+c.want) ||
			!strings.Contains(err.Error(), "tuning of Intel") {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestCheckCosts(t *testing.T) {
	row := reflect.TypeFor[Row]()
	for i := range row.NumField() {
		wrong := map[reflect.Kind][]float64{reflect.Float64: {-1, math.NaN()}, reflect.Int64: {-1, 1e9}}
		for _, value := range wrong[row.Field(i).Type.Kind()] {
			x := For(Intel, AVX512, 0, 0)
			switch f := reflect.ValueOf(&x).Elem().Field(i); f.Kind() {
			case reflect.Float64:
				f.SetFloat(value)
			case reflect.Int64:
				f.SetInt(int64(value))
			}
			if err := x.Check(); err == nil || !strings.Contains(err.Error(), row.Field(i).Name+" is ") {
				t.Errorf("%s of %v: %v", row.Field(i).Name, value, err)
			}
		}
	}
}

// For checks the row that it returns.
func TestForChecks(t *testing.T) {
	defer func(rows []Row) { table = rows }(table)
	table = slices.Clone(table)
	for i := range table {
		table[i].MinRows16 = 1
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "MinRows16 is 1") {
			t.Errorf("%v", err)
		}
	}()
	For(Intel, AVX512, 0, 0)
	t.Error("a row without kernels was taken")
}

// Tiles of many rows need a large L1 cache on some CPUs; an unknown L2 cache counts as the smallest
// of all CPUs that have assembly.
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

// Chunks of some rows read page by page: always, or between two numbers of rows.
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

// Whole blocks are prefetched ahead where the row says so, unless one block is too large.
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

// Where memory is read page by page, only many rows prefetch panels ahead.
func TestPanelsAhead(t *testing.T) {
	for _, c := range []struct {
		reads Reads
		rows  int
		want  bool
	}{{QueuedReads, 5, true}, {SequentialReads, 5, true}, {PagedReads, 47, false},
		{PagedReads, 48, true}} {
		row := Row{Reads: c.reads}
		if got := row.PanelsAhead(c.rows); got != c.want {
			t.Errorf("%v, %d rows: %t, want %t", c.reads, c.rows, got, c.want)
		}
	}
}

// TestCostOfReading checks that the product of one row and a small matrix in memory is shared where
// it lasts longer than workers need to start: otherwise they park before the next call, which wakes
// them again.
func TestCostOfReading(t *testing.T) {
	const bytes = 896 * 896 * 18 / 32 // of 4 bits and scales
	for _, isa := range []ISA{AVX512, AVX2} {
		row := For(Intel, isa, 48<<10, 2<<20)
		if cost := row.Cost(2*896*896, bytes); cost < row.SmallCall {
			t.Errorf("%v: reading %d bytes costs %.0f ns, want %.0f or more", isa, bytes, cost,
				row.SmallCall)
		}
	}
}
