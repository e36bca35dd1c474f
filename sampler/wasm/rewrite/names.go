package rewrite

import "strconv"

// The subsections of the name section that the rewriting changes.
const (
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
func (a *assembly) writeNames() *RefusedError {
	names := make([]string, a.module.spaces.functions)
	for i := a.module.importedFunctions; i < len(names); i++ {
		names[i] = "$" + strconv.Itoa(i)
	}
	var rest []byte
	for _, c := range a.module.customs {
		if c.name != "name" {
			continue
		}
		r := reader{data: a.module.data[:c.inside.end], at: c.inside.start}
		for r.more() {
			rest = a.subsection(rest, names, &r)
		}
		if r.err != nil {
			return r.err
		}
	}
	functions := a.functionNames(names)
	b := appendName(nil, "name")
	b = appendBytes(append(b, namesOfFunctions), functions)
	b = append(b, rest...)
	a.tail = appendBytes(append(a.tail, sectionCustom), b)
	return nil
}

// subsection reads function names into names, and appends others to rest.
func (a *assembly) subsection(rest []byte, names []string, r *reader) []byte {
	id := r.u8()
	part := r.part()
	if r.err != nil {
		return rest
	}
	switch id {
	case namesOfFunctions:
		a.readFunctionNames(names, &part)
	case namesOfLocals:
		rest = append(rest, id)
		rest = appendBytes(rest, a.shiftLocalNames(&part))
	case namesOfLabels: // the numbers of blocks have changed
		part.at = len(part.data)
	default:
		rest = appendBytes(append(rest, id), part.data[part.at:])
		part.at = len(part.data)
	}
	if err := part.done(); err != nil {
		r.fail(err.Offset, "%s", err.Reason)
	}
	return rest
}

func (a *assembly) readFunctionNames(names []string, r *reader) {
	for n := r.count(2); n > 0 && r.err == nil; n-- {
		f, name := r.u32(), r.bytes()
		if uint64(f) < uint64(len(names)) && len(name) > 0 {
			names[f] = string(name)
		}
	}
}

// shiftLocalNames copies the names of locals with the new indices of functions and
// locals.
func (a *assembly) shiftLocalNames(r *reader) []byte {
	n := r.count(2)
	b := appendU32(nil, uint32(n))
	for ; n > 0 && r.err == nil; n-- {
		function := r.u32()
		locals := r.count(2)
		b = appendU32(appendU32(b, a.layout.function(function)), uint32(locals))
		for ; locals > 0 && r.err == nil; locals-- {
			b = appendU32(b, a.shiftLocal(function, r.u32()))
			b = appendBytes(b, r.bytes())
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
			add(uint32(i), HostModule+"."+SampleFunction)
			add(uint32(i)+1, HostModule+"."+CallFunction)
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
