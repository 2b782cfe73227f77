package tuning

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

// The values that the fields of a row may have. Kernels have code for these only: a kernel called
// for fewer rows than its smallest tile returns without computing anything.

// Field describes the values of a field of a [Row]: whole numbers, false and true as 0 and 1.
type Field struct {
	Name        string
	Least, Most int
	Ends        bool // only Least and Most are valid, nothing between them
}

// Fields returns the fields of a row that are whole numbers or flags, not times or speeds.
func Fields() []Field { return slices.Clone(fields) }

var fields = []Field{
	{Name: "ISA", Most: int(NEON)},

	// The smallest tiles with 16 lanes have two rows: for one row 8 lanes read more panels side by
	// side.
	{Name: "MinRows16", Least: 2, Most: never},
	{Name: "MinTypedRows16", Least: 2, Most: never},
	{Name: "MinHalfRows16", Least: 2, Most: never},
	{Name: "MinPacked16", Least: 2, Most: never},
	{Name: "MaximaInScore", Most: 1},

	{Name: "Reads", Most: int(SequentialReads)},
	{Name: "FourPanels", Most: 1},
	{Name: "OnePanel", Most: 1},
	{Name: "PrefetchOne", Most: MostAhead},
	{Name: "PrefetchFew", Most: MostAhead}, // with PrefetchRun
	{Name: "PrefetchRun", Most: MostAhead},
	{Name: "PrefetchTyped", Most: MostAhead},
	{Name: "PrefetchScaled", Most: MostAhead},
	{Name: "PrefetchInt8", Most: MostAhead},
	{Name: "PrefetchBlocks", Most: MostAhead},
	{Name: "PrefetchRows", Most: MostAhead},
	{Name: "WholeBlocks", Most: 1},
	{Name: "FewRows", Most: never},
	{Name: "MinPagedRows", Most: never},
	{Name: "MaxPagedRows", Most: never},
	{Name: "MinPagedPanels", Most: never},
	{Name: "MinStreamRows", Most: never},
	{Name: "QuarterSteps", Most: 1},

	{Name: "TileRows", Least: MinTileRows, Most: MaxTileRows, Ends: true},
	{Name: "MinL1", Most: math.MaxInt},
	{Name: "L2", Most: math.MaxInt},

	{Name: "DotProduct", Most: 1}, // where the implementation and the machine have it
	{Name: "MinInt8Rows16", Most: never},
	{Name: "AMX", Most: 1}, // likewise
	{Name: "MinAMXRows", Most: never},
	{Name: "MinAMXMatrixRows", Most: never},
	{Name: "MinAMXBlockRows", Most: never},
	{Name: "AMXBFloat16", Most: 1}, // likewise
	{Name: "MinAMXPairRows", Most: never},
	{Name: "MaxRoundedRows", Most: never},
}

// Of returns the value of the field in a row.
func (f *Field) Of(t *Row) int {
	return number(reflect.ValueOf(t).Elem().FieldByName(f.Name))
}

// number returns a field's value, 0 or 1 for false and true.
func number(x reflect.Value) int {
	if x.Kind() != reflect.Bool {
		return int(x.Int())
	}
	if x.Bool() {
		return 1
	}
	return 0
}

// Set sets the field of a row.
func (f *Field) Set(t *Row, value int) {
	switch x := reflect.ValueOf(t).Elem().FieldByName(f.Name); x.Kind() {
	case reflect.Bool:
		x.SetBool(value != 0)
	default:
		x.SetInt(int64(value))
	}
}

// Takes reports whether the field may have a value.
func (f *Field) Takes(value int) bool {
	return value == f.Least || value == f.Most || !f.Ends && value > f.Least && value < f.Most
}

// want describes the values allowed.
func (f *Field) want() string {
	switch {
	case f.Ends:
		return fmt.Sprintf("%d or %d", f.Least, f.Most)
	case f.Most == never:
		return fmt.Sprintf("at least %d", f.Least)
	}
	return fmt.Sprintf("%d to %d", f.Least, f.Most)
}

// Check returns an error that names a field whose value is not allowed. Callers check a row before
// they use it: kernels do not.
func (t *Row) Check() error {
	// By number, because finding a field by its name would add 8 KB to each program.
	row := reflect.ValueOf(t).Elem()
	for i := range row.NumField() {
		name := row.Type().Field(i).Name
		n := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		if n < 0 { // a time or a speed
			continue
		}
		if f, value := &fields[n], number(row.Field(i)); !f.Takes(value) {
			return t.wrong(f.Name, value, f.want())
		}
	}
	switch {
	case t.PrefetchFew+t.PrefetchRun > MostAhead:
		return t.wrong("PrefetchRun", t.PrefetchRun, fmt.Sprintf(
			"at most %d with PrefetchFew, which is %d", MostAhead, t.PrefetchFew))
	case t.DotProduct && !HasDotProduct(t.ISA):
		return t.wrong("DotProduct", true, "false: there are no such kernels, or not on this machine")
	case t.AMX && !(t.ISA == AVX512 && t.DotProduct && HostTiles().Use):
		return t.wrong("AMX", true, "false: there are no such kernels, or not on this machine")
	case t.AMX && min(t.MinAMXRows, t.MinAMXMatrixRows) < 1:
		return t.wrong("MinAMXRows or MinAMXMatrixRows", min(t.MinAMXRows, t.MinAMXMatrixRows),
			"at least 1 with AMX")
	}
	return t.checkPairs()
}

// checkPairs checks the fields for products in bfloat16 and those that are no whole numbers.
func (t *Row) checkPairs() error {
	switch {
	case t.AMXBFloat16 && !(t.ISA == AVX512 && HostTiles().BFloat16):
		return t.wrong("AMXBFloat16", true, "false: there are no such kernels, or not on this machine")
	case t.AMXBFloat16 && t.MinAMXPairRows < 1:
		return t.wrong("MinAMXPairRows", t.MinAMXPairRows, "at least 1 with AMXBFloat16")
	}
	return t.checkCosts()
}

// checkCosts checks the fields that are no whole numbers.
func (t *Row) checkCosts() error {
	for _, x := range [...]struct {
		name  string
		value float64
		least float64
	}{
		{"FlopsPerNs", t.FlopsPerNs, math.SmallestNonzeroFloat64},
		{"BytesPerNs", t.BytesPerNs, math.SmallestNonzeroFloat64},
		{"SmallCall", t.SmallCall, 0},
		{"WakingCall", t.WakingCall, t.SmallCall},
		{"LongCall", t.LongCall, t.WakingCall},
		{"Backoff", t.Backoff, 0},
	} {
		if !(x.value >= x.least) {
			return t.wrong(x.name, x.value, fmt.Sprintf("at least %v", x.least))
		}
	}
	if t.Spin < 0 || t.Spin > longestSpin {
		return t.wrong("Spin", t.Spin, fmt.Sprintf("0 to %v", longestSpin))
	}
	return nil
}

// longestSpin bounds how long an idle worker may keep a core from others.
const longestSpin = 100 * time.Microsecond

func (t *Row) wrong(field string, value any, want string) error {
	return fmt.Errorf("attn: tuning of %s with %v: %s is %v, want %s", t.CPU, t.ISA, field, value,
		want)
}
