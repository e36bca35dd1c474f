package export

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Format is a file format.
type Format uint8

const (
	Pprof  Format = iota + 1 // profile.proto of github.com/google/pprof, uncompressed
	XML                      // ccmap.xsd
	JSON                     // ccmap.schema.json
	Folded                   // one line a stack, as flamegraph.pl and speedscope read it
)

// String returns the name of the format, for example "xml".
func (f Format) String() string {
	switch f {
	case Pprof:
		return "pprof"
	case XML:
		return "xml"
	case JSON:
		return "json"
	case Folded:
		return "folded"
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// Compression is what a file is wrapped in.
type Compression uint8

const (
	Plain Compression = iota
	Gzip
	Zstd
)

// extensions of the formats. The first of a format is the one we recommend.
var extensions = []struct {
	suffix string
	format Format
}{
	{".pb", Pprof},
	{".pprof", Pprof},
	{".xml", XML},
	{".json", JSON},
	{".folded", Folded},
	{".folded.txt", Folded},
	{pgoExtension, Pprof},
}

// FormatOf returns the format and compression that [WriteFile] gives a file of
// this name. The error of an unknown name lists those that are known.
func FormatOf(path string) (Format, Compression, error) {
	base, compression := cutCompression(filepath.Base(path))
	for _, e := range extensions {
		if strings.HasSuffix(base, e.suffix) {
			if e.suffix == pgoExtension && compression == Plain {
				compression = Gzip // as runtime/pprof writes it
			}
			return e.format, compression, nil
		}
	}
	return 0, Plain, fmt.Errorf("%w by its name: want .pb.gz, .pb, .pgo, .xml, .json or .folded, each also with .gz or .zst", ErrFormat)
}

func cutCompression(name string) (string, Compression) {
	if base, ok := strings.CutSuffix(name, ".gz"); ok {
		return base, Gzip
	}
	if base, ok := strings.CutSuffix(name, ".zst"); ok {
		return base, Zstd
	}
	return name, Plain
}
