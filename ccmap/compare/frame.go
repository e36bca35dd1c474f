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

	// Position is the offset of a call whose line is unknown, or may have several
	// calls, as ccmap.Coordinate prints it; else empty.
	Position string `json:"position,omitempty"`
}

func (f Frame) compare(o Frame) int {
	return cmp.Or(cmp.Compare(f.Method, o.Method), cmp.Compare(f.Signature, o.Signature), cmp.Compare(f.Line, o.Line), cmp.Compare(f.Position, o.Position))
}

// path is that of a node, from so many edges above it.
type path struct{ node, edges uint32 }

// frames returns the frames of a path, innermost first.
func (u *union) frames(p path) []Frame {
	frames := make([]Frame, 0, p.edges+1)
	frames = append(frames, u.declaration(u.edges[u.edge[p.node]].callee))
	for v := p.node; uint32(len(frames)) <= p.edges; v = u.parent[v] {
		e := u.edges[u.edge[v]]
		frames = append(frames, u.call(e.caller, e.offset))
	}
	return frames
}

// declaration describes a method, as the first profile that has it.
func (u *union) declaration(method uint32) Frame {
	m := u.described[method][0].method()
	return Frame{Method: m.Name, Signature: m.Signature, File: m.File, Line: m.StartLine}
}

// call describes a method at a call, whose line may be known to one profile only.
func (u *union) call(method, offset uint32) Frame {
	f := u.declaration(method)
	f.Line = 0
	for _, d := range u.described[method] {
		if f.Line = d.names.Line(ccmap.Frame{Method: d.id, Offset: offset}); f.Line != 0 {
			break
		}
	}
	if c := u.described[method][0].method().Coordinate; f.Line == 0 || c != ccmap.CoordinateLine {
		f.Position = c.Format(offset)
	}
	return f
}

func (d description) method() ccmap.Method { return d.names.At(d.id) }
