package wasm

import (
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/symbols"
)

// HostModule is the name of the module that a [Profiler] provides to its guests. No guest imports it by itself.
const HostModule = rewrite.HostModule

// Import is a function that a module imports.
type Import = symbols.Import

// Imports returns the functions that a module imports. It reads no further than their section, so it is fast
// where compiling takes half a minute.
func Imports(binary []byte) ([]Import, error) { return symbols.Imports(binary) }

// Function is a function of a module, under the name that profiles give it.
type Function struct {
	Name      string
	Signature string
	Imported  bool // it has no code in the module
	Bare      bool // it gets no safe point: its time counts for its callers
}

// Functions returns the functions of a module in the order of their indices. The error wraps [ErrRefused] if the
// module is malformed or cannot be rewritten.
func Functions(binary []byte) ([]Function, error) {
	budget := debuginfo.NewBudget(len(binary)) // a module may be hostile
	rewritten, err := rewrite.Rewrite(binary, rewrite.Options{MultiValue: true, Debug: budget})
	if err != nil {
		return nil, fmt.Errorf("rewrite module: %w", err)
	}
	table, err := symbols.Read(binary, budget)
	if err != nil {
		return nil, err
	}
	functions := make([]Function, table.Len())
	for i := range functions {
		f := table.Function(i)
		functions[i] = Function{Name: f.Name, Signature: f.Signature, Imported: f.Imported}
		if own := i - rewritten.Imported; own >= 0 {
			functions[i].Bare = rewritten.Functions[own] == rewrite.Bare
		}
	}
	return functions, nil
}
