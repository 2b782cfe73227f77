package nn

import (
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// Add computes dst = a + b: a residual or, with b repeated by [attn.Broadcast], a bias.
func Add(p *attn.Pool, dst, a, b attn.Tensor) (err error) {
	defer views.NameFunction("nn.Add", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("b", &b), argumentOf("a", &a)}
	if err := checkViews(all[:], 1); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation = add
	copy(j.all[:], all[:])
	j.byElements(len(all))
	return j.run(p)
}

// Activation is a function of single elements. NaN comes only from NaN.
type Activation int

const (
	// None is x.
	None Activation = iota
	// SiLU is x/(1 + exp(−x)) + 0 with [attn.Exp], each operation rounded: at most 2.5 ULP where
	// exp(−x) is finite, 2.394 of all float32. No zero is negative.
	SiLU
	// GELU is x·Φ(x), Φ of the normal distribution, by erf, as Hendrycks and Gimpel (2016) define
	// it: at most 2 ULP where the result is normal, falling up to its minimum and rising from
	// there.
	GELU
	// GELUTanh is the approximation of GELU by tanh, x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))): at
	// most 2 ULP where the result is normal, falling up to its minimum and rising from there.
	GELUTanh
	// ReLU is max(x, 0).
	ReLU
	// ReLUSquared is max(x, 0)².
	ReLUSquared
	// Sigmoid is 1/(1 + exp(−x)) with [attn.Exp], each operation rounded: at most 2.5 ULP where
	// exp(−x) is finite.
	Sigmoid
	// Tanh is at most 1 ULP from tanh(x), 0.959 of all float32, and rises.
	Tanh
	// Softplus is ln(1 + exp(x)): at most 0.6 ULP where the result is normal, 0.512 of all float32.
	// It rises.
	Softplus
	// Exp is [attn.Exp].
	Exp
	// QuickGELU is the approximation of GELU in CLIP, x·σ(float32(1.702)·x) + 0 with [Sigmoid], each
	// operation rounded. No zero is negative, and −Inf gives 0.
	QuickGELU

	activations
)

var activationNames = [...]string{"None", "SiLU", "GELU", "GELUTanh", "ReLU", "ReLUSquared",
	"Sigmoid", "Tanh", "Softplus", "Exp", "QuickGELU"}

func (a Activation) String() string {
	if a < 0 || a >= activations {
		return fmt.Sprintf("Activation(%d)", int(a))
	}
	return activationNames[a]
}

// functions maps activations to the functions of kernels.
var functions = [...]elements.Function{SiLU: elements.SiLU, GELU: elements.GELU,
	GELUTanh: elements.GELUTanh, ReLU: elements.ReLU, ReLUSquared: elements.ReLUSquared,
	Sigmoid: elements.Sigmoid, Tanh: elements.Tanh, Softplus: elements.Softplus, Exp: elements.Exp,
	QuickGELU: elements.QuickGELU}

func checkActivation(name string, a Activation) error {
	if a < 0 || a >= activations {
		return views.Fail(attn.ErrOption, "%s is %v, want None to QuickGELU", name, a)
	}
	return nil
}

// Activate computes dst = a(x). An unknown activation is [attn.ErrOption].
func Activate(p *attn.Pool, dst, x attn.Tensor, a Activation) (err error) {
	defer views.NameFunction("nn.Activate", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x)}
	if err := checkActivation("a", a); err != nil {
		return err
	}
	if err := checkViews(all[:], 1); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.activation = activate, a
	copy(j.all[:], all[:])
	j.byElements(len(all))
	return j.run(p)
}

// Gate computes dst = a(gate)·up, as Shazeer (2020) defines it, with the product rounded: SwiGLU
// with [SiLU], GeGLU with [GELU], ReGLU with [ReLU]. An unknown activation is [attn.ErrOption].
func Gate(p *attn.Pool, dst, gate, up attn.Tensor, a Activation) (err error) {
	defer views.NameFunction("nn.Gate", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("up", &up),
		argumentOf("gate", &gate)}
	if err := checkActivation("a", a); err != nil {
		return err
	}
	if err := checkViews(all[:], 1); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.activation = gateActivated, a
	j.all = [...]argument{all[0], all[2], all[1], {}}
	j.byElements(len(all))
	return j.run(p)
}

// GateClamped computes the gate of gpt-oss, with g = min(gate, limit) and up clamped to u within
// ±limit:
//
//	dst = (g·σ(alpha·g))·(u + 1)
//
// Each operation is rounded; a gate of −Inf gives 0, unless up is NaN. alpha must be positive and
// finite, limit positive, else [attn.ErrOption]; a limit of +Inf means no limit.
func GateClamped(p *attn.Pool, dst, gate, up attn.Tensor, alpha, limit float32) (err error) {
	defer views.NameFunction("nn.GateClamped", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("up", &up), argumentOf("gate", &gate)}
	if !(alpha > 0 && alpha <= math.MaxFloat32) {
		return views.Fail(attn.ErrOption, "alpha is %v, want a positive finite number", alpha)
	}
	if !(limit > 0) {
		return views.Fail(attn.ErrOption, "limit is %v, want a positive number", limit)
	}
	if err := checkViews(all[:], 1); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.alpha, j.limit = gateClamped, alpha, limit
	j.all = [...]argument{all[0], all[2], all[1], {}}
	j.byElements(len(all))
	return j.run(p)
}

// Softmax computes [attn.Softmax] of each row: a row without an element above −Inf becomes zeros.
func Softmax(p *attn.Pool, dst, x attn.Tensor) (err error) {
	defer views.NameFunction("nn.Softmax", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x)}
	if err := checkViews(all[:], 1); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation = softmax
	copy(j.all[:], all[:])
	j.byRows()
	return j.run(p)
}

// activateRow is Activate of a piece of a row.
func activateRow(dst, x []float32, a Activation, ahead elements.Ahead) {
	if a != None {
		elements.Activate(isa, dst, x, functions[a], ahead)
	} else if &dst[0] != &x[0] {
		stop.Copy(dst, x)
	}
}

// gateRow is Gate of a piece of a row.
func gateRow(dst, x, up []float32, a Activation, ahead elements.Ahead) {
	if a == None {
		elements.Multiply(isa, dst, x, up, ahead)
		return
	}
	elements.Gate(isa, dst, x, up, functions[a], ahead)
}
