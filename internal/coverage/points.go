package coverage

import (
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/gocover"
)

// functionPoints returns the blocks, branches and switches of a function as points of a
// method. The point of its first block counts the calls of the function.
func functionPoints(id ccmap.MethodID, m ccmap.Method, f *gocover.Function) []ccmap.Point {
	p := pointMaker{id, m.StartLine, nil}
	if m.StartLine <= 0 { // positions count from the declaration, as in stacks
		p.startLine = clampLine(f.Line)
	}
	p.blocks(f.Blocks)
	for _, b := range f.Branches {
		p.add(ccmap.PointBranch, b.Start, b.End, ccmap.Point{Values: []ccmap.PointValue{
			{Value: ccmap.BranchTaken, Count: clampCount(b.Taken)},
			{Value: ccmap.BranchUntaken, Count: clampCount(b.Untaken)},
		}})
	}
	for _, s := range f.Switches {
		point := ccmap.Point{Other: clampCount(s.None)}
		for _, c := range s.Cases {
			point.Values = append(point.Values, ccmap.PointValue{Value: uint64(p.offset(c.Line)), Count: clampCount(c.Count)})
		}
		p.add(ccmap.PointSwitch, s.Start, s.Start, point)
	}
	return p.points
}

type pointMaker struct {
	method    ccmap.MethodID
	startLine int32
	points    []ccmap.Point
}

// blocks adds a point for each range of lines. If several blocks have the same lines, the
// highest count stands for them, as in llvm-cov: their sum would count one execution of a
// line several times.
func (p *pointMaker) blocks(blocks []gocover.Block) {
	at := make(map[[2]uint32]int)
	for _, b := range blocks {
		lines := [2]uint32{b.Start.Line, b.End.Line}
		i, known := at[lines]
		if !known {
			i = len(p.points)
			at[lines] = i
			p.add(ccmap.PointBlock, b.Start, b.End, ccmap.Point{})
		}
		p.points[i].Count = max(p.points[i].Count, clampCount(b.Count))
	}
}

func (p *pointMaker) add(kind ccmap.PointKind, start, end gocover.Position, point ccmap.Point) {
	point.Origin, point.Kind, point.Method = ccmap.OriginImported, kind, p.method
	point.Offset, point.End, point.Nulls = p.offset(start.Line), p.offset(end.Line), ccmap.NullsUnknown
	p.points = append(p.points, point)
}

// offset returns a line as a position in the method, see ccmap.Frame.
func (p *pointMaker) offset(line uint32) uint32 { return uint32(clampLine(line) - p.startLine) }

func clampCount(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
