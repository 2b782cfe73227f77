package jinja

import (
	"math"
	"math/bits"
	"slices"
)

// number64 returns a bool as a number.
func number64(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// bothNumbers returns two values as int64s or as float64s, or neither.
func bothNumbers(a, b value) (x, y int64, f, g float64, ints, floats bool) {
	x, isInt := integer(a)
	y, alsoInt := integer(b)
	f, isFloat := float(a)
	g, alsoFloat := float(b)
	ints = isInt && alsoInt
	return x, y, f, g, ints, !ints && isFloat && alsoFloat
}

func integer(v value) (int64, bool) {
	switch v := v.(type) {
	case bool:
		return number64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func float(v value) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	n, ok := integer(v)
	return float64(n), ok
}

// arithmetic computes a binary operation of two numbers, or of texts and lists where Python has it.
func (r *run) arithmetic(op kind, a, b value) value {
	defined(a)
	defined(b)
	if x, y, f, g, ints, floats := bothNumbers(a, b); ints {
		return ofInts(op, x, y)
	} else if floats {
		return ofFloats(op, f, g)
	}
	switch op {
	case "+":
		if made := r.concatenated(a, b); made != nil {
			return made
		}
	case "*":
		if n, ok := integer(b); ok {
			return r.repeated(a, n)
		} else if n, ok := integer(a); ok {
			return r.repeated(b, n)
		}
	case "%":
		if format, ok := a.(text); ok {
			return r.formatted(format, b)
		}
	}
	fail("%s between values of types %s and %s", op, typeName(a), typeName(b))
	return nil
}

func (r *run) concatenated(a, b value) value {
	if safe(a) || safe(b) {
		return r.markups(a, b)
	}
	switch a := a.(type) {
	case text:
		if b, ok := b.(text); ok {
			return r.join([]text{a, b}, nil)
		}
	case *listValue:
		if b, ok := b.(*listValue); ok {
			return &listValue{r.both(a.items, b.items)}
		}
	case tuple:
		if b, ok := b.(tuple); ok {
			return tuple(r.both(a, b))
		}
	}
	return nil
}

func (r *run) both(a, b []value) []value {
	r.charge(workOfItem * (len(a) + len(b)))
	return append(append(make([]value, 0, len(a)+len(b)), a...), b...)
}

// repeated repeats a text or list.
func (r *run) repeated(v value, n int64) value {
	switch v := v.(type) {
	case text:
		return slices.Repeat(v, r.times(n, len(v), 1))
	case *listValue:
		return &listValue{slices.Repeat(v.items, r.times(n, len(v.items), workOfItem))}
	case tuple:
		return slices.Repeat(v, r.times(n, len(v), workOfItem))
	}
	fail("* between values of types %s and int", typeName(v))
	return nil
}

// times returns how often a value is repeated, and charges the work.
func (r *run) times(n int64, size, work int) int {
	if size == 0 || n <= 0 {
		return 0
	} else if n > r.left/int64(size*work) {
		tooMuch()
	}
	r.charge(work * size * int(n))
	return int(n)
}

func ofInts(op kind, x, y int64) value {
	switch op {
	case "+":
		return inRange(op, x+y, (x >= 0) == (y >= 0) && (x >= 0) != (x+y >= 0))
	case "-":
		return inRange(op, x-y, (x >= 0) != (y >= 0) && (x >= 0) != (x-y >= 0))
	case "*":
		return product(x, y)
	case "/":
		nonzero(op, float64(y))
		return float64(x) / float64(y)
	case "//", "%":
		nonzero(op, float64(y))
		quotient, rest := inRange(op, x/y, x == math.MinInt64 && y == -1), x%y
		if rest != 0 && (rest < 0) != (y < 0) {
			quotient, rest = quotient-1, rest+y
		}
		if op == "%" {
			return rest
		}
		return quotient
	}
	if y < 0 {
		nonzero(op, float64(x))
		return math.Pow(float64(x), float64(y))
	}
	return power(x, y)
}

func inRange(op kind, x int64, overflow bool) int64 {
	if overflow {
		fail("%s makes a number too large, want integers of 64 bits", op)
	}
	return x
}

func nonzero(op kind, y float64) {
	if y == 0 {
		fail("%s by zero", op)
	}
}

func product(x, y int64) int64 {
	abs := func(x int64) uint64 { return uint64(max(x, -x)) } // also right for the least integer
	high, low := bits.Mul64(abs(x), abs(y))
	return inRange("*", x*y, high != 0 || low > math.MaxInt64)
}

func power(x, y int64) int64 {
	if x >= -1 && x <= 1 {
		y = min(y, 2+y%2) // powers of 0, 1 and -1 only depend on parity
	}
	made := int64(1)
	for range y {
		made = product(made, x)
	}
	return made
}

func ofFloats(op kind, f, g float64) value {
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "/":
		nonzero(op, g)
		return f / g
	case "//":
		nonzero(op, g)
		return math.Floor((f-modulo(f, g))/g + 0.5)
	case "%":
		nonzero(op, g)
		return modulo(f, g)
	}
	if g < 0 {
		nonzero(op, f)
	}
	made := math.Pow(f, g)
	if math.IsNaN(made) && !math.IsNaN(f+g) || math.IsInf(made, 0) && !math.IsInf(f, 0) &&
		!math.IsInf(g, 0) {
		fail("%v ** %v is no number", f, g)
	}
	return made
}

// modulo has the sign of g.
func modulo(f, g float64) float64 {
	rest := math.Mod(f, g)
	if rest != 0 && (rest < 0) != (g < 0) {
		return rest + g
	}
	return math.Copysign(rest, map[bool]float64{true: rest, false: g}[rest != 0])
}

// negate returns a number with the other sign.
func negate(v value) value {
	defined(v)
	if n, ok := integer(v); ok {
		return ofInts("-", 0, n)
	} else if f, ok := v.(float64); ok {
		return -f
	}
	fail("- before a value of type %s", typeName(v))
	return nil
}
