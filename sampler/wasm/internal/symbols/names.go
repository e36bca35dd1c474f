package symbols

import (
	"fmt"
	"strconv"

	"github.com/ianlancetaylor/demangle"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// readNames gives the functions the names of the "name" section, as far as it is readable
// (appendix "Custom Sections" of the specification).
func (m *module) readNames() {
	const functionNames = 1
	for r := m.names; r.More(); {
		s := r.Section() // subsections have the same form
		if s.ID != functionNames {
			continue
		}
		for n := s.U32(); n > 0 && s.Err == nil; n-- {
			i, name := s.U32(), s.Vector()
			if int64(i) < int64(len(m.functions)) {
				m.functions[i].name = string(name)
			}
		}
	}
	m.names = format.Reader{}
}

// nameForPeople returns a function's name: of an import the module and the name, and of a
// function without a name its index, as in wazero's stack traces.
func (f *function) nameForPeople(index int) string {
	switch {
	case f.from != nil:
		return f.from.Module + "." + f.from.Name
	case f.goName != "":
		return f.goName
	case f.name == "":
		return "$" + strconv.Itoa(index)
	}
	return demangled(f.name)
}

// Bounds of names: a short mangled name can stand for a very long one.
const (
	maxMangled       = 16 << 10 // bytes
	maxDemangledBits = 12       // 4 KiB
)

// demangled returns the plain form of a name that C++ or Rust has mangled, and any other
// name unchanged. It drops Rust's hash, and keeps the types that tell overloaded
// functions apart.
func demangled(name string) string {
	if len(name) > maxMangled {
		return name
	}
	plain, err := demangle.ToString(name, demangle.MaxLength(maxDemangledBits))
	if err != nil || plain == "" {
		return name
	}
	return plain
}

// identity tells methods apart.
type identity struct{ name, signature string }

// identify returns the identities of all functions. No two are equal. Static functions of
// several C files, constructors of C++ and instances of Rust's generic functions may have
// the same name and type: the second one in the module's order gets the number 2 after
// its type.
func (m *module) identify() []identity {
	all := make([]identity, len(m.functions))
	met := make(map[identity]int, len(m.functions))
	for i := range m.functions {
		f := &m.functions[i]
		id := identity{f.nameForPeople(i), m.types[f.typeIndex]}
		met[id]++
		if n := met[id]; n > 1 {
			id.signature = fmt.Sprintf("%s #%d", id.signature, n)
		}
		all[i] = id
	}
	return all
}
