package export

import (
	"bufio"
	"fmt"
	"io"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Write writes the snapshot to w, uncompressed. Equal maps give equal bytes.
//
// XML and JSON are linear in the nodes. Pprof and Folded hold whole stacks:
// they are linear in nodes times depth, in time and in bytes written, not in memory.
func Write(w io.Writer, f Format, s *ccmap.Snapshot) error {
	encode := encoders[f]
	if encode == nil {
		return fmt.Errorf("write profile: %w: %v", ErrFormat, f)
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	err := encode(buffered, newCanonical(s, f))
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return fmt.Errorf("write %v: %w", f, err)
	}
	return nil
}

// encoders need not check each write: the bufio.Writer keeps the first error,
// and Flush returns it.
var encoders = map[Format]func(*bufio.Writer, *canonical) error{
	Pprof:  writePprof,
	XML:    writeXML,
	JSON:   writeJSON,
	Folded: writeFolded,
}
