package export

import (
	"bufio"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Format is a file format.
type Format uint8

const (
	Pprof  Format = iota + 1 // profile.proto of github.com/google/pprof, uncompressed
	XML                      // ccmap.xsd
	JSON                     // ccmap.schema.json
	Folded                   // one line a stack, as flamegraph.pl and speedscope read it
	JFR                      // recordings of the JDK and of async-profiler; it is read only
)

// Formats lists all formats that are written and read. Help, errors and docs/formats.md follow
// the list.
func Formats() []Format {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(formatTable)), func(f Format) bool { return formatTable[f].write == nil })
}

// Holds says of each part of a profile how much a format keeps: "all", "no" or another word
// of docs/formats.md, which has this table.
type Holds struct {
	Contexts, Samples, Time, Activations, Window string
	Pruned                                       string // counts of pruned contexts by edge and method
	Points                                       string
	Methods                                      string // fields of methods
	Meta                                         string
}

// Words of [Holds] that decide what is written.
const (
	holdsAll    = "all"
	holdsBursts = "calls of bursts"
	holdsNone   = "none"
)

// formatTable has a row for each format: its name, its extensions, its writer, its reader,
// and the parts of a profile that it can hold. A format that is read only has a name and a
// reader.
//
// A writer need not check each write: the bufio.Writer keeps the first error, and Flush
// returns it. A reader reads a whole document, and leaves the check of the map to Read.
var formatTable = map[Format]struct {
	name       string
	extensions []string
	write      func(*bufio.Writer, *canonical) error
	read       func(*bufio.Reader, *builder) error
	holds      Holds
}{
	Pprof: {"pprof", []string{".pb", pgoExtension, ".pprof"}, writePprof, readPprof,
		Holds{"counted", "yes", "yes", "yes", "yes", "frames", holdsBursts, "all; `receiver` where on top", "all"}},
	XML:  {"xml", []string{".xml"}, writeXML, readXML, holdsEverything},
	JSON: {"json", []string{".json"}, writeJSON, readJSON, holdsEverything},
	Folded: {"folded", []string{".folded", ".folded.txt"}, writeFolded, readFolded,
		Holds{"counted", "no", "CPU time, or samples", "no", "no", "frames", holdsNone, "name, signature", "none"}},
	JFR: {name: "jfr", read: readJFR},
}

var holdsEverything = Holds{holdsAll, "yes", "yes", "yes", "yes", holdsAll, holdsAll, holdsAll, holdsAll}

// String returns the name of the format, for example "xml".
func (f Format) String() string {
	if row, ok := formatTable[f]; ok {
		return row.name
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// Extensions returns the ends of file names that mean this format. Each may have .gz or .zst
// after it.
func (f Format) Extensions() []string { return slices.Clone(formatTable[f].extensions) }

// Holds returns which parts of a profile the format can hold.
func (f Format) Holds() Holds { return formatTable[f].holds }

// HasAllPoints reports whether the format has a place for every profile point. A format
// without it has none for phases of the program.
func (f Format) HasAllPoints() bool { return f.Holds().Points == holdsAll }

// HasCaughtCalls reports whether the format has a place for the calls that breakpoints caught.
func (f Format) HasCaughtCalls() bool { return f.HasAllPoints() || f.Holds().Points == holdsBursts }

// HasUnits reports whether the format has a place for the unit of weights. Another format is
// for CPU time and samples alone.
func (f Format) HasUnits() bool { return f.Holds().Time == "yes" }

// HasPrunedTotals reports whether the format has a place for counts of pruned nodes by edge and
// method.
func (f Format) HasPrunedTotals() bool { return f.Holds().Pruned == holdsAll }

// LostVMPoints returns how many points that a VM has counted the format has no place for.
func (f Format) LostVMPoints(s *ccmap.Snapshot) (n int) {
	for _, p := range s.Points() {
		if p.Origin == ccmap.OriginVM && !f.hasPoint(&p) {
			n++
		}
	}
	return n
}

// hasPoint reports whether the format has a place for the point.
func (f Format) hasPoint(p *ccmap.Point) bool {
	isCaughtCall := p.Origin == ccmap.OriginBurst && p.Kind == ccmap.PointCall
	return f.HasAllPoints() || isCaughtCall && f.HasCaughtCalls()
}

// ListExtensions lists the extensions of all formats for people.
func ListExtensions() string {
	var all []string
	for _, f := range Formats() {
		all = append(all, f.Extensions()...)
	}
	return strings.Join(all, ", ") + ", each also with .gz or .zst"
}

// CutExtension divides the name of a file into the part that gives no format, and the part that gives
// format and compression. Of a name without a format the second part is empty.
func CutExtension(path string) (stem, extension string) {
	plain, _ := cutCompression(path)
	for _, row := range formatTable {
		for _, extension := range row.extensions {
			if stem, ok := strings.CutSuffix(plain, extension); ok {
				return stem, path[len(stem):]
			}
		}
	}
	return path, ""
}

// FormatOf returns the format and compression that [WriteFile] gives a file of
// this name. The error of an unknown name lists those that are known.
func FormatOf(path string) (Format, Compression, error) {
	base, compression := cutCompression(filepath.Base(path))
	if IsPGO(path) && compression == Plain {
		compression = Gzip // as runtime/pprof writes it
	}
	for f, row := range formatTable {
		for _, extension := range row.extensions {
			if strings.HasSuffix(base, extension) {
				return f, compression, nil
			}
		}
	}
	return 0, Plain, fmt.Errorf("%w by its name: want one of %s", ErrFormat, ListExtensions())
}
