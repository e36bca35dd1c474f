package wasm

import (
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental/table"

	"github.com/ccmapd/ccmapd/ccmap"
)

// target returns the method that an indirect call is about to reach, and false if
// the call will trap.
func (in *instance) target(site, element uint32) (ccmap.MethodID, bool) {
	f := in.lookUp(site, element)
	if f == nil {
		return ccmap.NoMethod, false
	}
	def := f.Definition()
	if in.module.owns(def) {
		if original, ok := in.module.rewritten.Function(def.Index()); ok {
			return in.module.method(original), true
		}
	}
	return in.module.profiler.Sink().Names.Intern(ccmap.Method{Name: def.DebugName()}), true
}

// lookUp finds the function, and nil where wazero panics: the element is out of
// range, or of another type.
func (in *instance) lookUp(site, element uint32) (f api.Function) {
	defer func() {
		if recover() != nil {
			f = nil
		}
	}()
	s := in.module.rewritten.Sites[site]
	return table.LookupFunction(in.guest, s.Table, element, s.Params, s.Results)
}
