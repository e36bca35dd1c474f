package hotspot

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// named remembers the ids of methods, and the positions whose lines are known, in one table of
// names.
type named struct {
	names   *ccmap.Names
	methods map[*classes.Method]ccmap.MethodID
	lines   map[ccmap.Frame]bool
	pending map[*classes.Method]ccmap.MethodID // without a body
	bytes   int                                // of the texts of methods that were named
}

const (
	// maxLines bounds the positions that are remembered, and maxMethods the methods. What is
	// full is emptied.
	maxLines, maxMethods = 1 << 16, 1 << 16
	// maxNamed bounds the bytes of all names: the target can have a million methods of the
	// longest name in its memory, and a profile keeps each of them.
	maxNamed = 64 << 20
)

// in makes the table of names that ids are of.
func (n *named) in(names *ccmap.Names) {
	if n.names != names || len(n.methods) >= maxMethods || len(n.lines) >= maxLines {
		n.names, n.methods, n.lines = names, make(map[*classes.Method]ccmap.MethodID), make(map[ccmap.Frame]bool)
		n.pending = make(map[*classes.Method]ccmap.MethodID)
	}
}

// size returns about how many bytes the ids and positions take.
func (n *named) size() int64 {
	const of = 32 // an entry
	return of * int64(len(n.methods)+len(n.lines)+len(n.pending))
}

// frame returns the frame of a Java method at a bytecode.
func (n *named) frame(m *classes.Method, bci int) ccmap.Frame {
	id, ok := n.methods[m]
	if !ok {
		id = n.intern(m)
		n.methods[m] = id
		if n.bytes <= maxNamed {
			n.wantBody(m, id)
		}
	}
	if bci == unwind.NoBCI {
		return ccmap.Frame{Method: id, Offset: ccmap.NoOffset}
	}
	at := ccmap.Frame{Method: id, Offset: uint32(bci)}
	if !n.lines[at] {
		n.lines[at] = true
		n.names.SetLine(at, int32(m.Line(bci)))
	}
	return at
}

// intern returns the id of a method. Beyond the bound of names it is an unknown one.
func (n *named) intern(m *classes.Method) ccmap.MethodID {
	method := m.Map()
	method.StartLine = int32(m.Line(0))
	if id, known := n.names.Lookup(method.Name, method.Signature); known {
		return id
	}
	n.bytes += len(method.Name) + len(method.Signature) + len(method.Receiver) + len(method.File)
	if n.bytes > maxNamed {
		method = ccmap.Method{Name: ccmap.UnknownName}
	}
	return n.names.Intern(method)
}

// Frames is part of [process.Runtime].
func (p *Process) Frames(st *process.Stack, names *ccmap.Names, dst []ccmap.Frame) []ccmap.Frame {
	p.named.in(names)
	found := foundIn(st)
	dst = p.native.frames(st.PCs[:found.natives], names, dst)
	if found.lost {
		dst = append(dst, bare(names, nativeName))
	}
	for _, f := range found.java.Frames {
		p.hot.note(f.Method)
		if m, err := p.classes.Method(f.Method); err == nil {
			dst = append(dst, p.named.frame(m, f.BCI))
		} else {
			dst = append(dst, bare(names, ccmap.UnknownName))
		}
	}
	if found.root != "" {
		dst = append(dst, bare(names, found.root))
	}
	return dst
}

// bare returns a frame of a name alone.
func bare(names *ccmap.Names, name string) ccmap.Frame {
	return ccmap.Frame{Method: names.Intern(ccmap.Method{Name: name}), Offset: ccmap.NoOffset}
}
