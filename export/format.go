package export

import (
	"bufio"
	"fmt"
	"path/filepath"
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
)

// formatTable has a row for each format: its name, its extensions (we recommend the first),
// its writer, its reader, and the parts of a map that it can hold beside contexts.
//
// A writer need not check each write: the bufio.Writer keeps the first error, and Flush
// returns it. A reader reads a whole document, and leaves the check of the map to Read.
var formatTable = map[Format]struct {
	name       string
	extensions []string
	write      func(*bufio.Writer, *canonical) error
	read       func(*bufio.Reader, *builder) error

	evicted bool                    // counts of pruned nodes by edge and method
	phases  bool                    // phases of the program that points belong to
	point   func(*ccmap.Point) bool // reports whether there is a place for a point; nil: for none
}{
	Pprof:  {"pprof", []string{".pb", ".pprof", pgoExtension}, writePprof, readPprof, false, false, isCaughtCall},
	XML:    {"xml", []string{".xml"}, writeXML, readXML, true, true, isAny},
	JSON:   {"json", []string{".json"}, writeJSON, readJSON, true, true, isAny},
	Folded: {"folded", []string{".folded", ".folded.txt"}, writeFolded, readFolded, false, false, nil},
}

func isAny(*ccmap.Point) bool { return true }

// isCaughtCall reports whether a point counts calls that breakpoints caught.
func isCaughtCall(p *ccmap.Point) bool {
	return p.Origin == ccmap.OriginBurst && p.Kind == ccmap.PointCall
}

// String returns the name of the format, for example "xml".
func (f Format) String() string {
	if row, ok := formatTable[f]; ok {
		return row.name
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// hasPoint reports whether the format has a place for the point.
func (f Format) hasPoint(p *ccmap.Point) bool {
	has := formatTable[f].point
	return has != nil && has(p)
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
	return 0, Plain, fmt.Errorf("%w by its name: want .pb.gz, .pb, .pgo, .xml, .json or .folded, each also with .gz or .zst", ErrFormat)
}
