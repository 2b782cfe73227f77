package views

import (
	"errors"
	"fmt"
)

// Error is an error of a kind, which Unwrap returns. Its text is "attn: shape mismatch: k.H is 3,
// want …"; NameFunction adds the function before the argument.
type Error struct {
	kind           error
	function, text string
}

func (e *Error) Error() string {
	if e.function == "" {
		return fmt.Sprintf("%v: %s", e.kind, e.text)
	}
	return fmt.Sprintf("%v: %s: %s", e.kind, e.function, e.text)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.kind }

// Fail returns an error of a kind. (Inlined, it would be a tenth of the code of all checks.)
//
//go:noinline
func Fail(kind error, format string, args ...any) error {
	return &Error{kind: kind, text: fmt.Sprintf(format, args...)}
}

// NameFunction adds the name of a public function to the error that the function returns, so that a
// caller of several functions learns which one failed:
//
//	defer views.NameFunction("nn.Add", &err)
//
// An error that names a function already keeps its text.
func NameFunction(function string, err *error) {
	if *err != nil {
		*err = named(function, *err)
	}
}

func named(function string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", function, err)
	}
	switch {
	case e.function != "":
		return err
	case err == error(e):
		return &Error{e.kind, function, e.text}
	}
	return fmt.Errorf("%s: %w", function, err)
}
