// Package tuning has every policy that depends on the CPU: a table with a row for each known
// microarchitecture and implementation. Results do not depend on it, so a test may use any row
// whose kernels its machine has.
package tuning

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"
)

// Microarchitecture is a family of processors with the same policies.
type Microarchitecture string

const (
	Zen3     Microarchitecture = "Zen 3"
	Zen4     Microarchitecture = "Zen 4"
	Zen5     Microarchitecture = "Zen 5"
	Intel    Microarchitecture = "Intel"
	OtherX86 Microarchitecture = "other x86-64"
	ARM64    Microarchitecture = "arm64"
	AnyCPU   Microarchitecture = "any" // for the generic code
)

// Reads is how kernels of few rows, which wait for memory, read keys and values.
type Reads int8 // a byte, since each program has the table

const (
	// QueuedReads: the processor's own prefetching is good enough. Score prefetches what follows its
	// block.
	QueuedReads Reads = iota
	// PagedReads: kernels of few rows prefetch a line of each of 8 pages in turn, see
	// gen/prefetch_pages.go.
	PagedReads
	// SequentialReads: kernels of few rows read rows of keys and values in order and prefetch packed
	// panels only; they read the keys of several blocks before their values. Where heads lie side by
	// side, they prefetch the tokens of all heads in order.
	SequentialReads
)

func (r Reads) String() string { return [...]string{"queued", "paged", "inOrder"}[r] }

// Row is the policies of one CPU and implementation.
type Row struct {
	CPU Microarchitecture
	ISA ISA // the kernels

	// Which kernels process full blocks.
	MinRows16 int // score and accumulate have 16 lanes from that many rows on, if such kernels exist
	// MinTypedRows16 is MinRows16 over elements of fewer bits. 0 in the table means the same value.
	MinTypedRows16 int
	// MinHalfRows16 is MinTypedRows16 over F16 and BF16. 0 in the table means the same value.
	MinHalfRows16 int
	// MinPacked16 is MinRows16 over views whose keys the call packs, so that they are in the cache,
	// for eight rows or more in all. 0 in the table means the same value.
	MinPacked16   int
	MaximaInScore bool // score with 8 lanes also finds the maxima of its rows

	// How memory is read.
	Reads         Reads
	FourPanels    bool // one row reads four packed panels side by side, otherwise one after another
	OnePanel      bool // two and three rows read panels one after another, otherwise two side by side
	PrefetchOne   int  // bytes that one or two rows prefetch ahead in packed panels
	PrefetchFew   int  // the same for three to five rows
	PrefetchRun   int  // added to both where blocks follow each other, not in a store's pages
	PrefetchTyped int  // for elements of fewer bits, beyond panels that are read side by side
	// PrefetchScaled is PrefetchTyped over I8 and I4 of a cache or store. 0 in the table means the
	// same value.
	PrefetchScaled int
	PrefetchBlocks int  // bytes that few rows prefetch ahead in blocks of GGUF files
	PrefetchRows   int  // the same in norms and activations, at least to the next row; 0: none
	PrefetchInt8   int  // the same for rows of integers in the panels of other matrices and caches
	WholeBlocks    bool // of a cache or store, in whole blocks that are at least PrefetchInt8
	FewRows        int  // up to that many rows, heads side by side are read together, page by page
	MinPagedRows   int  // with queued reads, fewest rows that read views page by page
	MaxPagedRows   int  // with queued reads, most rows that do
	// MinPagedPanels is the fewest rows for which a cache or store of float32 is read page by page
	// with queued reads, and by kernels that MinPacked16 chooses; 0: never.
	MinPagedPanels int
	// MinStreamRows is the fewest rows, or for more than TileDim dimensions one row, that prefetch
	// views whose heads lie side by side in one stream; 0: no rows do.
	MinStreamRows int
	QuarterSteps  bool // rows are prefetched from four places in turn, a quarter of them from each

	// Sizes of tiles and chunks.
	TileRows int // rows, of at most TileDim dimensions, that the kernels process together
	MinL1    int // bytes of L1 cache that TileRows needs; with less it is MinTileRows
	L2       int // bytes of L2 cache of a core

	DotProduct bool // integer kernels add products of four bytes in one instruction: [DotProduct]

	AMX              bool // products of many rows use AMX tiles,
	MinAMXRows       int  // from that many rows on in attention, 0 if there are no such kernels,
	MinAMXMatrixRows int  // from that many rows on with a matrix of integers,
	MinAMXBlockRows  int  // and with a matrix of blocks, for whole tiles of rows only

	AMXBFloat16    bool // products in bfloat16 use tiles, too,
	MinAMXPairRows int  // from that many rows on, 0 if there are no such kernels

	// Products in bfloat16 of at most so many rows read keys, values or blocks of weights where they
	// lie and round them in registers. More rows need panels of pairs.
	MaxRoundedRows int

	// Kernels over integers have 16 lanes from MinInt8Rows16 rows on. One row waits less for memory
	// with 8: its prefetches are further apart.
	MinInt8Rows16 int

	// When a Pool wakes workers.
	FlopsPerNs float64       // a multiply-add counts as two
	BytesPerNs float64       // from memory
	SmallCall  float64       // shorter calls, in nanoseconds, stay on the caller's goroutine
	WakingCall float64       // shorter calls wake no workers
	LongCall   float64       // calls of at least that are always shared
	Backoff    float64       // calls shared in vain, in nanoseconds, before some are not shared
	Spin       time.Duration // how long an idle goroutine spins before it parks
}

const (
	// MinTileRows and MaxTileRows bound Row.TileRows.
	MinTileRows, MaxTileRows = 48, 96

	// TileDim is the most dimensions for which Row.TileRows rows stay in the L1 cache with their
	// scores.
	TileDim = 64

	// AMXRows is the number of rows of an AMX tile.
	AMXRows = 16

	// MostAhead bounds how many bytes ahead a kernel prefetches: more would leave the L1 cache before
	// it is read.
	MostAhead = 32 << 10

	never = math.MaxInt // more rows than a tile has
)

// Table has a row for each known CPU and implementation. docs/decisions/tuning.md says what each
// field decides and what its values gained. A field that was not measured has the value of the most
// similar row.
func Table() []Row { return slices.Clone(table) }

var table = []Row{
	{CPU: Zen3, ISA: AVX2, MinRows16: never, FewRows: 64, MaximaInScore: true, FourPanels: true,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MaxRoundedRows: 8, TileRows: 48},
	{CPU: Zen4, ISA: AVX512, MinRows16: never, MinInt8Rows16: 2, FewRows: 128, MaximaInScore: true,
		Reads:       SequentialReads,
		PrefetchOne: 256, PrefetchFew: 4096, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		MaxRoundedRows: 8, TileRows: 96},
	{CPU: Zen4, ISA: AVX2, MinRows16: never, FewRows: 64, MaximaInScore: true,
		Reads:       SequentialReads,
		PrefetchOne: 256, PrefetchFew: 4096, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MaxRoundedRows: 8, TileRows: 96},
	{CPU: Zen5, ISA: AVX512, MinRows16: 13, MinPacked16: 2, MinTypedRows16: 2, MinInt8Rows16: 1,
		FewRows: 96, OnePanel: true, MinPagedRows: 2, MaxPagedRows: 32, MinStreamRows: 2,
		MinPagedPanels: 6,
		PrefetchOne:    6144, PrefetchFew: 8192, PrefetchRun: 4096, PrefetchTyped: 4096,
		PrefetchScaled: 8192, PrefetchInt8: 8192, WholeBlocks: true,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		MaxRoundedRows: 8, TileRows: 48},
	{CPU: Zen5, ISA: AVX2, MinRows16: never, FewRows: 64, MaximaInScore: true, OnePanel: true,
		MinPagedRows: 2, MaxPagedRows: 32, MinStreamRows: 2,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchRun: 4096, PrefetchTyped: 4096,
		PrefetchInt8: 8192, WholeBlocks: true,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MaxRoundedRows: 8, TileRows: 48},
	{CPU: Intel, ISA: AVX512, MinRows16: 2, MinHalfRows16: 5, MinInt8Rows16: 2, FewRows: 128,
		Reads: PagedReads, QuarterSteps: true,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 6144, PrefetchInt8: 9728,
		PrefetchBlocks: 2048, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		MaxRoundedRows: 8, TileRows: 96, MinL1: 48 << 10, BytesPerNs: 16},
	{CPU: Intel, ISA: AVX2, MinRows16: never, FewRows: 64, Reads: PagedReads,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 6144, PrefetchInt8: 9728,
		PrefetchBlocks: 2048, PrefetchRows: 4096,
		MaxRoundedRows: 8, TileRows: 96, MinL1: 48 << 10, BytesPerNs: 16},
	{CPU: OtherX86, ISA: AVX512, MinRows16: 13, MinInt8Rows16: 2, FewRows: 128,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MinAMXRows: 9, MinAMXMatrixRows: 5, MinAMXBlockRows: 16, MinAMXPairRows: 5,
		MaxRoundedRows: 8, TileRows: 48},
	{CPU: OtherX86, ISA: AVX2, MinRows16: never, FewRows: 64,
		PrefetchOne: 6144, PrefetchFew: 8192, PrefetchTyped: 4096, PrefetchInt8: 8192,
		PrefetchBlocks: 6144, PrefetchRows: 4096,
		MaxRoundedRows: 8, TileRows: 48},
	{CPU: ARM64, ISA: NEON, MinRows16: never, FewRows: 64, TileRows: 48, FlopsPerNs: 60,
		PrefetchBlocks: 6144},
	{CPU: AnyCPU, ISA: Generic, MinRows16: never, FewRows: 64, MaxRoundedRows: 8, TileRows: 48,
		FlopsPerNs: 1.5},
}

// Host returns the row of this machine, or of the implementation that the environment variable
// ATTN_ISA names.
func Host() Row {
	cpu, l1, l2, possible := detect()
	row := For(cpu, choose(os.Getenv("ATTN_ISA"), possible...), l1, l2)
	row.DotProduct = HasDotProduct(row.ISA)
	row.AMX = HostTiles().Use && row.MinAMXRows > 0
	row.AMXBFloat16 = HostTiles().BFloat16 && row.MinAMXPairRows > 0
	return row
}

// HostTiles says whether this process may use AMX tiles. The first call asks the operating system.
var HostTiles = sync.OnceValue(func() Tiles {
	_, _, _, possible := detect()
	isa := choose(os.Getenv("ATTN_ISA"), possible...)
	return tilesAsked(os.Getenv("ATTN_AMX"), isa, func() Tiles {
		if used, why := DotProduct(isa); !used { // it multiplies the rows outside whole tiles
			return Tiles{Why: why}
		}
		return requestTiles()
	})
})

// Possible returns the implementations that this machine can run, best first.
func Possible() []ISA {
	_, _, _, possible := detect()
	return possible
}

// For returns the row of a CPU and an implementation, fitted to caches of these sizes in bytes; 0
// or less means unknown. It panics if [Row.Check] refuses the row.
func For(cpu Microarchitecture, i ISA, l1, l2 int) Row {
	for _, row := range table {
		if row.ISA == i && (row.CPU == cpu || row.CPU == AnyCPU) {
			if row.MinTypedRows16 == 0 {
				row.MinTypedRows16 = row.MinRows16
			}
			if row.MinHalfRows16 == 0 {
				row.MinHalfRows16 = row.MinTypedRows16
			}
			if row.MinPacked16 == 0 {
				row.MinPacked16 = row.MinRows16
			}
			if row.PrefetchScaled == 0 {
				row.PrefetchScaled = row.PrefetchTyped
			}
			row = row.WithCaches(l1, l2).withCosts()
			if err := row.Check(); err != nil {
				panic(err)
			}
			return row
		}
	}
	panic(fmt.Sprintf("attn: no tuning for %s with %v", cpu, i))
}

// WithCaches fits the sizes of tiles to caches.
func (t Row) WithCaches(l1, l2 int) Row {
	const (
		unknown  = 512 << 10 // the smallest of the CPUs that have assembly
		smallest = 256 << 10
	)
	if l1 < t.MinL1 {
		t.TileRows = MinTileRows
	}
	if t.L2 = unknown; l2 > 0 {
		t.L2 = max(l2, smallest)
	}
	return t
}

// withCosts fills in the costs that rows do not give.
func (t Row) withCosts() Row {
	if t.FlopsPerNs == 0 {
		t.FlopsPerNs = 90
	}
	if t.BytesPerNs == 0 {
		t.BytesPerNs = 40
	}
	t.SmallCall, t.WakingCall, t.Spin = 20e3, 250e3, 50*time.Microsecond
	t.LongCall, t.Backoff = 4*t.WakingCall, 300e3
	return t
}

// ScratchBytes bounds a worker's scratch memory. Each block of keys is packed once for all rows of
// a chunk, so more rows pack less often, but everything has to stay in the L2 cache.
func (t *Row) ScratchBytes() int {
	const largest = 1280 << 10 // more rows gain nothing, and threads may share a larger cache
	return min(t.L2/32*31, largest)
}

// PrefetchBytes bounds each prefetch: of a block's keys, of its values, of a chunk's outputs and of
// the next chunk's queries. More would evict what the chunk uses from the L2 cache.
func (t *Row) PrefetchBytes() int { return t.L2 / 8 }

// Stays reports whether an operand of a matrix product stays in the L2 cache with the others.
func (t *Row) Stays(bytes int) bool { return bytes <= t.L2/2 }

// Streams reports whether few rows read their bytes in order, and whether they prefetch them in one
// stream where heads lie side by side. Fewer bytes may be in the L2 cache, where both are slower.
func (t *Row) Streams(bytes float64, rows, dims int) (inOrder, oneStream bool) {
	if bytes <= float64(t.L2) {
		return false, false
	}
	return t.Reads == SequentialReads,
		t.MinStreamRows > 0 && (rows >= t.MinStreamRows || dims > TileDim)
}

// PagedRows returns the most rows that read the caller's keys and values page by page, for chunks
// of this many rows.
func (t *Row) PagedRows(rows int) int {
	switch {
	case t.Reads == PagedReads:
		return t.FewRows
	case t.Reads == QueuedReads && rows >= t.MinPagedRows:
		return t.MaxPagedRows
	}
	return 0
}

// PanelsInOrder reports whether packed panels are read in order, which OnePanel decides, too.
func (t *Row) PanelsInOrder(bytes float64) bool {
	return (t.OnePanel || t.Reads == SequentialReads) && bytes > float64(t.L2)
}

// PanelsAhead reports whether some rows by a matrix prefetch the next panels while they multiply by
// the current ones, a part with each tile. With PagedReads only rows that compute long enough do;
// fewer rows prefetch page by page, with the first tile.
func (t *Row) PanelsAhead(rows int) bool { return t.Reads != PagedReads || rows >= 48 }

// Ahead returns how many bytes ahead rows of integers prefetch blocks of a cache or store. Scales
// lie between the keys and the values of a block and after the values, and kernels do not prefetch
// them. A distance of whole blocks prefetches each line that kernels read once; another distance
// would omit some lines and prefetch others twice.
func (t *Row) Ahead(block int) int {
	if ahead := (t.PrefetchInt8 + block - 1) / block * block; t.WholeBlocks && ahead <= MostAhead {
		return ahead
	}
	return t.PrefetchInt8
}

// Cost estimates the nanoseconds on one core: the longer of the arithmetic and of reading the
// operands.
func (t *Row) Cost(flops, bytes float64) float64 {
	return max(flops/t.FlopsPerNs, bytes/t.BytesPerNs)
}

// TasksPerWorker is the least tasks for each worker, so that no worker waits long for the last
// task.
const TasksPerWorker = 4

// Makespan estimates how long workers need for tasks that need at most each and on average mean.
// Tasks of one length run in rounds, and the last worker ends somewhat after the others; if lengths
// differ, small tasks fill the gaps that large ones leave.
func Makespan(tasks, workers int, each, mean float64) float64 {
	if mean == 1 {
		rounds := (tasks + workers - 1) / workers
		return (float64(rounds) + 1./4) * each
	}
	return max(float64(tasks)*mean/float64(workers), 1)*each + each/4
}
