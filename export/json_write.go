package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
)

// writeJSON writes the document of ccmap.schema.json, one method and one node a
// line. The methods come before the nodes, so that a reader needs one pass.
func writeJSON(w *bufio.Writer, c *canonical) error {
	meta, err := newMetaDoc(c.snapshot.Meta())
	if err != nil {
		return err
	}
	w.WriteString("{\"ccmap_version\":" + strconv.Itoa(Version) +
		",\n\"activations_exact\":" + strconv.FormatBool(c.snapshot.ActivationsExact()) +
		",\n\"meta\":")
	if err := writeValue(w, meta); err != nil {
		return err
	}
	w.WriteString(",\n\"methods\":[")
	for i, m := range c.methods {
		writeSeparator(w, i == 0)
		if err := writeValue(w, newMethodDoc(m)); err != nil {
			return err
		}
	}
	w.WriteString("\n],\n\"nodes\":[")
	for e := range c.entries() {
		writeSeparator(w, e.index == 1)
		writeJSONNode(w, e)
	}
	w.WriteString("\n]}\n")
	return nil
}

func writeValue(w *bufio.Writer, v any) error {
	b, err := marshal(v)
	w.Write(b)
	return err
}

// marshal returns v on one line, without the \u003c that json.Marshal makes of
// a <.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// writeSeparator begins the line of an array's element.
func writeSeparator(w *bufio.Writer, first bool) {
	if !first {
		w.WriteByte(',')
	}
	w.WriteByte('\n')
}

// writeJSONNode is written out by hand: there is a node for every context.
func writeJSONNode(w *bufio.Writer, e entry) {
	w.WriteString(`{"parent":`)
	w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(e.parent), 10))
	if e.Offset != ccmap.NoOffset {
		writeMember(w, "offset", int64(int32(e.Offset)))
	}
	if e.method != noMethod {
		writeMember(w, "method", int64(e.method))
	}
	if e.Self.Samples != 0 {
		writeMember(w, "samples", e.Self.Samples)
	}
	if e.Self.Time != 0 {
		writeMember(w, "time_ns", e.Self.Time)
	}
	if e.Self.Activations != 0 {
		writeMember(w, "activations", e.Self.Activations)
	}
	w.WriteByte('}')
}

func writeMember(w *bufio.Writer, name string, v int64) {
	w.WriteString(`,"`)
	w.WriteString(name)
	w.WriteString(`":`)
	w.Write(strconv.AppendInt(w.AvailableBuffer(), v, 10))
}
