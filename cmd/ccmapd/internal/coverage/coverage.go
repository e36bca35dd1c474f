// Package coverage adds the counts of Go's coverage files to a profile, as profile points:
// how often each block, branch and case of a function was executed.
//
// [Read] reads the directories that a program was given as GOCOVERDIR, and [Import] adds
// the functions that were executed. A function is found in the profile by its name; one
// that the profile does not have is added. Function literals, and branches, are known only
// if the source is found and is the source of the program. [Stats] says how much was
// imported, and why the rest was not.
package coverage

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/gocover"
)

// ErrNoCounters means that a directory has the description of a program but no counters:
// no run of it ended by itself.
var ErrNoCounters = errors.New("no counters")

// Files are coverage files that were read.
type Files struct {
	Programs []*gocover.Program
	Ignored  []error // of files that could not be read
	Memory   int64   // that the programs take, bytes
}

// Read reads directories of coverage files. A directory without counters is an error,
// ErrNoCounters: all counts would be 0. So are programs that take more than maxMemory bytes,
// gocover.ErrMemory.
func Read(dirs []string, maxMemory int64) (Files, error) {
	var f Files
	for _, dir := range dirs {
		d, err := gocover.ReadDir(dir, maxMemory-f.Memory)
		if err != nil {
			return Files{}, err
		}
		for _, err := range d.Ignored {
			f.Ignored = append(f.Ignored, fmt.Errorf("%s is ignored: %w", dir, err))
		}
		runs := 0
		for _, p := range d.Programs {
			runs += p.Runs
		}
		if runs == 0 {
			return Files{}, errors.Join(append([]error{fmt.Errorf("%s: %w", dir, ErrNoCounters)}, f.Ignored...)...)
		}
		f.Programs = append(f.Programs, d.Programs...)
		f.Memory += d.Memory()
	}
	return f, nil
}

// importer adds the counts of coverage files to a map, as profile points.
type importer struct {
	m       *ccmap.Map
	spare   func() int64 // bytes that the map as it is leaves
	sources *sources
	owners  map[ccmap.MethodID]functionPlace // the function that became each method
	stats   Stats
}

type functionPlace struct {
	file string
	line uint32
}

// Import adds programs to a map. It looks for sources in the module at source or, if that
// is empty, where the profile says. spare returns how many bytes of memory the map as it is
// leaves. If points and sources take more, the error is gocover.ErrMemory.
func Import(m *ccmap.Map, programs []*gocover.Program, source string, spare func() int64) (*Stats, error) {
	c := importer{
		m:       m,
		spare:   spare,
		sources: newSources(m.Names(), source),
		owners:  make(map[ccmap.MethodID]functionPlace),
	}
	for _, p := range programs {
		c.sources.learn(p)
	}
	for _, p := range programs {
		if err := c.add(p); err != nil {
			return nil, fmt.Errorf("import coverage: %w", err)
		}
	}
	return &c.stats, nil
}

// left returns how much memory is left beside the points of some blocks, in bytes, or an
// error where it is used up.
func (c *importer) left(blocks int) (int64, error) {
	const point = 1 << 10 // bytes: a point of a block, and of a branch or case in it, while lists grow
	left := c.spare() - c.sources.memory - int64(blocks)*point
	if left < 0 {
		return 0, gocover.ErrMemory
	}
	return left, nil
}

// add adds the functions of a program that were executed. Points are for methods that
// run.
func (c *importer) add(p *gocover.Program) error {
	c.stats.addProgram(p)
	for i := range p.Packages {
		pkg := &p.Packages[i]
		for _, f := range pkg.Functions {
			c.stats.functions++
			if f.Executed() {
				c.stats.executed++
				if err := c.addFunction(pkg, f, p.Mode); err != nil {
					return fmt.Errorf("%s: %w", pkg.Symbol(&f), err)
				}
			}
		}
	}
	return nil
}

// addFunction adds a function. With its source, the function literals in it are functions
// of their own.
func (c *importer) addFunction(pkg *gocover.Package, f gocover.Function, mode gocover.Mode) error {
	left, err := c.left(len(f.Blocks))
	if err != nil {
		return err
	}
	parts, told, err := c.sources.split(pkg, f, mode, left)
	if err != nil {
		return err
	}
	if !told {
		c.stats.untold++
		parts = []gocover.Function{f}
	}
	for i := range parts {
		part := &parts[i]
		if !part.Executed() {
			continue
		}
		id, ok := c.method(pkg, part, told)
		if !ok {
			c.stats.conflict(pkg.Symbol(part))
			continue
		}
		for _, point := range functionPoints(id, c.m.Names().At(id), part) {
			c.stats.points[point.Kind]++
			c.m.AddPoint(point)
		}
	}
	return nil
}

// method returns the method of a function. It adds a method that the profile does not have.
// It fails if the profile, or an earlier import, has another function of that name, from
// another program or version.
func (c *importer) method(pkg *gocover.Package, f *gocover.Function, told bool) (ccmap.MethodID, bool) {
	names, symbol, place := c.m.Names(), pkg.Symbol(f), functionPlace{f.File, f.Line}
	id, found := names.Lookup(symbol, "")
	owner, imported := c.owners[id]
	switch {
	case !found:
		id = names.Intern(ccmap.Method{
			Name: symbol, Receiver: pkg.ReceiverType(f), File: c.sources.name(pkg, f), StartLine: clampLine(f.Line),
		})
		c.stats.added++
	case imported:
		return id, owner == place
	case isFunction(names.At(id), pkg, f, told):
		c.stats.matched++
	default:
		return 0, false
	}
	c.owners[id] = place
	return id, true
}

// isFunction reports whether a method of the profile may be a function of the same name: it
// stands in the same file, and begins on the same line. Without the source only the line of
// the brace is known, not the line of the declaration. In code of a VM positions are not
// lines, so blocks have no place there.
func isFunction(m ccmap.Method, pkg *gocover.Package, f *gocover.Function, told bool) bool {
	if m.Coordinate != ccmap.CoordinateLine {
		return false
	}
	if m.File != "" && m.File != f.File && !strings.HasSuffix(m.File, "/"+fileInModule(pkg, f)) {
		return false
	}
	line := clampLine(f.Line)
	return m.StartLine <= 0 || line == m.StartLine || !told && line > m.StartLine
}

// fileInModule returns the path of a source file below the directory of its module; the
// base name if the program was built from files.
func fileInModule(pkg *gocover.Package, f *gocover.Function) string {
	if filepath.IsAbs(f.File) {
		return filepath.Base(f.File)
	}
	return strings.TrimPrefix(f.File, pkg.Module+"/")
}

func clampLine(line uint32) int32 { return int32(min(line, math.MaxInt32)) }

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
