package compare

import (
	"cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Frame is one of a path.
type Frame struct {
	Method    string `json:"method"`
	Signature string `json:"signature,omitempty"`
	File      string `json:"file,omitempty"` // empty where unknown
	Line      int32  `json:"line,omitempty"` // of the call or, in the innermost frame, the declaration; 0 where unknown
}

func (f Frame) compare(o Frame) int {
	return cmp.Or(cmp.Compare(f.Method, o.Method), cmp.Compare(f.Signature, o.Signature), cmp.Compare(f.Line, o.Line))
}

// path is that of a node, from so many edges above it.
type path struct{ node, edges uint32 }

// frames returns the frames of a path, innermost first.
func (u *union) frames(p path) []Frame {
	frames := make([]Frame, 0, p.edges+1)
	frames = append(frames, u.frame(u.edges[u.edge[p.node]].callee, 0))
	for v := p.node; uint32(len(frames)) <= p.edges; v = u.parent[v] {
		e := u.edges[u.edge[v]]
		frames = append(frames, u.frame(e.caller, e.offset))
	}
	return frames
}

// frame describes a method at an offset.
func (u *union) frame(method, offset uint32) Frame {
	d := u.described[method]
	m := d.names.At(d.id)
	f := Frame{Method: m.Name, Signature: m.Signature, File: m.File}
	if offset != ccmap.NoOffset {
		f.Line = m.StartLine + int32(offset)
	}
	return f
}
