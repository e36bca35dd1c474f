package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/valueprof/gocover"
)

// coverage are the flags of convert that say what Go's coverage counters are to be
// added to the profile.
type coverage struct {
	dirs   []string // directories that were GOCOVERDIR
	source string   // directory of the module; "": where the profile says
}

// programs reads the directories. Coverage of a run that ended without writing its
// counters is an error: all counts would be 0.
func (c coverage) programs() (programs []*gocover.Program, ignored []error, err error) {
	for _, dir := range c.dirs {
		d, err := gocover.ReadDir(dir)
		if err != nil {
			return nil, nil, explainCoverage(err)
		}
		for _, err := range d.Ignored {
			ignored = append(ignored, fmt.Errorf("%s is ignored: %w", dir, err))
		}
		runs := 0
		for _, p := range d.Programs {
			runs += p.Runs
		}
		if runs == 0 {
			return nil, nil, withHint(errors.Join(append([]error{fmt.Errorf("%s: no counters", dir)}, ignored...)...),
				"A program writes them when it exits; one that is killed writes none.")
		}
		programs = append(programs, d.Programs...)
	}
	return programs, ignored, nil
}

func explainCoverage(err error) error {
	if errors.Is(err, gocover.ErrNoData) {
		return withHint(err, "Build with 'go build -cover', and run with GOCOVERDIR set to a directory that exists.")
	}
	return err
}

// checkFormat refuses formats that have no place for what is imported.
func (c coverage) checkFormat(o output) error {
	format := o.writes()
	if format != export.XML && format != export.JSON {
		return usagef("--coverage is kept by xml and json alone: %s has no place for counts of blocks", format)
	}
	return nil
}

// coverageImport adds the counts of coverage files to a map, as profile points.
type coverageImport struct {
	m       *ccmap.Map
	sources *coverageSources
	owners  map[ccmap.MethodID]functionPlace // where the function stands that a method is
	stats   coverageStats
}

type functionPlace struct {
	file string
	line uint32
}

// importCoverage adds programs to a map and says what it did.
func importCoverage(m *ccmap.Map, programs []*gocover.Program, source string) *coverageStats {
	c := coverageImport{
		m:       m,
		sources: newCoverageSources(m.Names(), source),
		owners:  make(map[ccmap.MethodID]functionPlace),
	}
	for _, p := range programs {
		c.sources.learn(p)
	}
	for _, p := range programs {
		c.add(p)
	}
	return &c.stats
}

// add adds the functions of a program that were executed. The others have nothing to
// say: points are made for methods that run.
func (c *coverageImport) add(p *gocover.Program) {
	c.stats.addProgram(p)
	for i := range p.Packages {
		pkg := &p.Packages[i]
		for _, f := range pkg.Functions {
			c.stats.functions++
			if f.Executed() {
				c.stats.executed++
				c.addFunction(pkg, f, p.Mode)
			}
		}
	}
}

// addFunction adds a function and, with its source, the function literals in it as
// functions of their own.
func (c *coverageImport) addFunction(pkg *gocover.Package, f gocover.Function, mode gocover.Mode) {
	parts, told := c.sources.split(pkg, f, mode)
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
}

// method returns the method of the profile that a function is; one that the profile
// does not have is added. There is none if the profile, or what was imported before,
// has another function of that name: that of another program, or version.
func (c *coverageImport) method(pkg *gocover.Package, f *gocover.Function, told bool) (ccmap.MethodID, bool) {
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

// isFunction reports whether a method of the profile may be a function of its name:
// it stands in the same file, and begins on the same line. Without the source the
// line of the declaration is not known, only that of the brace. In the code of a VM,
// where positions are no lines, blocks have no place.
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

// fileInModule returns the path of a source file below the directory of its module;
// the base name where the program was built from files.
func fileInModule(pkg *gocover.Package, f *gocover.Function) string {
	if filepath.IsAbs(f.File) {
		return filepath.Base(f.File)
	}
	return strings.TrimPrefix(f.File, pkg.Module+"/")
}

func clampLine(line uint32) int32 { return int32(min(line, math.MaxInt32)) }
