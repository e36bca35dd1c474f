package rewrite

import (
	"strconv"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// The subsections of the name section that wazero reads, or that the rewriting changes.
const (
	nameOfModule     = 0
	namesOfFunctions = 1
	namesOfLocals    = 2
	namesOfLabels    = 3
)

func isReplaced(section string) bool {
	return section == "name" || isDebug(section)
}

// writeNames writes the name section anew, after all others. Every function of the
// original has a name in it: "$" and its original index if it had none, as wazero prints
// it. An added function that calls another has the other's name.
func (a *assembly) writeNames() *format.Error {
	names := make([]string, a.module.spaces.functions)
	a.unname(names)
	var rest []byte
	for _, c := range a.module.customs {
		if c.name != "name" {
			continue
		}
		var err *format.Error
		if rest, err = a.readNames(names, c.inside); err != nil {
			return err
		}
	}
	functions := a.functionNames(names)
	b := appendName(nil, "name")
	b = appendBytes(append(b, namesOfFunctions), functions)
	b = append(b, rest...)
	a.tail = appendBytes(append(a.tail, format.SectionCustom), b)
	return nil
}

// unname gives every defined function the name that it has without one.
func (a *assembly) unname(names []string) {
	clear(names)
	for i := a.module.importedFunctions; i < len(names); i++ {
		names[i] = "$" + strconv.Itoa(i)
	}
}

// readNames reads function names into names, and returns other subsections. It accepts the
// same sections as wazero v1.12.0 (internal/wasm/binary/names.go): it reads a known
// subsection to the end of its content and ignores its length, and lengths only say when the
// section ends. If there are several subsections of function names, it reads the last one
// alone, because a small module could have very many.
func (a *assembly) readNames(names []string, inside extent) (rest []byte, err *format.Error) {
	r := format.Reader{Data: a.module.data[:inside.end], At: inside.start}
	last := format.Reader{Data: r.Data, At: inside.end} // where the last function names begin
	for left := uint64(inside.end - inside.start); left > 0 && r.Err == nil; {
		if !r.More() && inside.end == len(a.module.data) {
			break // the module's end ends its section, too
		}
		at := r.At
		id, length := r.Byte(), r.U32()
		left -= uint64(r.At-at) + uint64(length)
		if id == namesOfFunctions {
			last = r
		}
		rest = a.subsection(rest, id, int(length), &r)
	}
	if last.At < inside.end {
		readFunctionNames(names, &last)
	}
	return rest, r.Done()
}

// subsection appends a subsection to rest, unless it has function names.
func (a *assembly) subsection(rest []byte, id byte, length int, r *format.Reader) []byte {
	switch id {
	case nameOfModule:
		return appendBytes(append(rest, id), appendBytes(nil, r.Text()))
	case namesOfFunctions:
		readFunctionNames(nil, r)
	case namesOfLocals:
		return appendBytes(append(rest, id), a.shiftLocalNames(r))
	case namesOfLabels: // the numbers of blocks have changed
		r.Skip(length)
	default:
		at := r.At
		r.Skip(length)
		return appendBytes(append(rest, id), r.Data[at:r.At])
	}
	return rest
}

// readFunctionNames reads a subsection, and keeps the names of functions that names has.
func readFunctionNames(names []string, r *format.Reader) {
	for n := r.Count(2); n > 0 && r.Err == nil; n-- {
		f, name := r.U32(), r.Text()
		if uint64(f) < uint64(len(names)) && len(name) > 0 {
			names[f] = string(name)
		}
	}
}

// shiftLocalNames copies the names of locals with the new indices of functions and
// locals.
func (a *assembly) shiftLocalNames(r *format.Reader) []byte {
	n := r.Count(2)
	b := appendU32(nil, uint32(n))
	for ; n > 0 && r.Err == nil; n-- {
		function := r.U32()
		locals := r.Count(2)
		b = appendU32(appendU32(b, a.layout.function(function)), uint32(locals))
		for ; locals > 0 && r.Err == nil; locals-- {
			b = appendU32(b, a.shiftLocal(function, r.U32()))
			b = appendBytes(b, r.Text())
		}
	}
	return b
}

// shiftLocal gives a local its new index: higher by 1 after the number.
func (a *assembly) shiftLocal(function, index uint32) uint32 {
	if uint64(function) >= uint64(a.module.spaces.functions) || !a.layout.face(function).registered {
		return index
	}
	if params := a.module.types[a.module.functionTypes[function]].params; uint64(index) < uint64(len(params)) {
		return index
	}
	return index + 1
}

func (a *assembly) functionNames(names []string) []byte {
	var b []byte
	n := 0
	add := func(index uint32, name string) {
		if name != "" {
			b = appendName(appendU32(b, index), name)
			n++
		}
	}
	for i, name := range names {
		if i == a.module.importedFunctions {
			for k, name := range hostImports(a.options) {
				add(uint32(i+k), HostModule+"."+name)
			}
		}
		add(a.layout.function(uint32(i)), name)
	}
	for i, f := range a.added {
		index := a.layout.function(uint32(len(names) + i))
		switch f.kind {
		case addedThunk, addedReference, addedStub, addedExit:
			add(index, names[f.function])
		case addedEnter:
			add(index, HostModule+".enter")
		case addedCatch:
			add(index, HostModule+".catch")
		}
	}
	return append(appendU32(nil, uint32(n)), b...)
}
