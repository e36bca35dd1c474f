package rewrite

import (
	"errors"
	"fmt"
)

// ErrRefused is what errors.Is finds in every error of Rewrite.
var ErrRefused = errors.New("wasm module refused")

// RefusedError says why a module cannot be rewritten exactly. The module may be
// malformed (wazero says better why), or it uses a feature that the rewriter
// does not know.
type RefusedError struct {
	Offset int // in the module, in bytes, of what is refused
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("rewrite wasm module: at offset %#x: %s", e.Offset, e.Reason)
}

// Is makes every RefusedError an ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

func refuse(offset int, format string, args ...any) *RefusedError {
	return &RefusedError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}
