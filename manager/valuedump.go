package manager

import (
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

// valueDump makes the dump of value tables readable: their values, which are numbers
// of methods, become names.
type valueDump struct {
	w     io.Writer
	names *ccmap.Names
}

// newValueDump returns nil for nil.
func newValueDump(w io.Writer, names *ccmap.Names) io.Writer {
	if w == nil {
		return nil
	}
	return &valueDump{w, names}
}

var dumpedValue = regexp.MustCompile(`\bvalue=0x[0-9a-f]+`)

// Write takes one line.
func (d *valueDump) Write(line []byte) (int, error) {
	named := dumpedValue.ReplaceAllFunc(line, func(value []byte) []byte {
		id, err := strconv.ParseUint(string(value[len("value=0x"):]), 16, 32)
		if err != nil || id >= uint64(d.names.Len()) {
			return value
		}
		return fmt.Appendf(nil, "value=%s", d.names.At(ccmap.MethodID(id)).Name)
	})
	if _, err := d.w.Write(named); err != nil {
		return 0, err
	}
	return len(line), nil
}

// siteName names a site in the dump: the method and line of the call, or its offset
// where that is unknown, and, in a context, of its callers: "main.sum:12<main.main:40".
func (v *values) siteName(s valueprof.Site) string {
	name := v.placeName(ccmap.Frame{Method: ccmap.MethodID(s.Method), Offset: s.Offset})
	for _, f := range v.contexts.frames(s.Context) {
		name += "<" + v.placeName(f)
	}
	return name
}

func (v *values) placeName(f ccmap.Frame) string {
	m := v.code.names.At(f.Method)
	if line := v.code.names.Line(f); line != 0 {
		return fmt.Sprintf("%s:%d", m.Name, line)
	}
	return m.Name + m.Coordinate.Format(f.Offset)
}
