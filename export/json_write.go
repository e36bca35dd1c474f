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
	meta, err := newMetaDoc(c.snapshot)
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
	var numbers []number
	for e := range c.entries() {
		numbers = e.numbers(numbers[:0])
		writeJSONNumbers(w, e.index == 1, numbers)
	}
	w.WriteString("\n]")
	if lines := c.lines(); len(lines) > 0 {
		writeJSONLines(w, lines)
	}
	if calls := c.inlined(); len(calls) > 0 {
		writeJSONInlined(w, calls)
	}
	if err := writeJSONElements(w, "mappings", c.mappings()); err != nil {
		return err
	}
	if err := writeJSONElements(w, "addresses", c.addresses()); err != nil {
		return err
	}
	if c.bases {
		writeJSONPruned(w, c)
	}
	if len(c.points) > 0 {
		writeJSONPoints(w, c)
	}
	w.WriteString("}\n")
	return nil
}

// writeJSONLines writes the lines of positions, one a line.
func writeJSONLines(w *bufio.Writer, lines []frameLine) {
	w.WriteString(",\n\"lines\":[")
	var numbers [3]number
	for i, l := range lines {
		writeJSONNumbers(w, i == 0, l.numbers(numbers[:0]))
	}
	w.WriteString("\n]")
}

// writeJSONInlined writes the inlined calls, one a line.
func writeJSONInlined(w *bufio.Writer, calls []inlinedCall) {
	w.WriteString(",\n\"inlined\":[")
	var numbers [3]number
	for i, call := range calls {
		writeJSONNumbers(w, i == 0, call.numbers(numbers[:0]))
	}
	w.WriteString("\n]")
}

// writeJSONElements writes a list, one element a line, if it is not empty.
func writeJSONElements[D any](w *bufio.Writer, list string, docs []D) error {
	if len(docs) == 0 {
		return nil
	}
	w.WriteString(",\n\"" + list + "\":[")
	for i, d := range docs {
		writeSeparator(w, i == 0)
		if err := writeValue(w, d); err != nil {
			return err
		}
	}
	w.WriteString("\n]")
	return nil
}

// writeJSONPruned writes what the removed nodes had counted.
func writeJSONPruned(w *bufio.Writer, c *canonical) {
	w.WriteString(",\n\"pruned_edges\":[")
	for i, e := range c.prunedEdges() {
		writeJSONNumbers(w, i == 0, c.prunedEdgeNumbers(nil, e))
	}
	w.WriteString("\n],\n\"pruned_methods\":[")
	for i, p := range c.prunedMethods() {
		writeJSONNumbers(w, i == 0, c.prunedMethodNumbers(nil, p))
	}
	w.WriteString("\n]")
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
	writeComma(w, first)
	w.WriteByte('\n')
}

func writeComma(w *bufio.Writer, first bool) {
	if !first {
		w.WriteByte(',')
	}
}

// writeJSONPoints writes the profile points, one a line.
func writeJSONPoints(w *bufio.Writer, c *canonical) {
	w.WriteString(",\n\"points\":[")
	for i := range c.points {
		writeSeparator(w, i == 0)
		writeJSONPoint(w, &c.points[i])
	}
	w.WriteString("\n]")
}

func writeJSONPoint(w *bufio.Writer, p *ccmap.Point) {
	var numbers [8]number
	w.WriteString(`{"origin":"` + p.Origin.String() + `","kind":"` + p.Kind.String() + `"`)
	for _, n := range pointNumbers(numbers[:0], p) {
		w.WriteByte(',')
		writeJSONNumber(w, n)
	}
	if p.Callers != nil {
		w.WriteString(`,"context":[`)
		for i, f := range p.Callers {
			writeComma(w, i == 0)
			writeJSONObject(w, appendFrame(numbers[:0], f))
		}
		w.WriteByte(']')
	}
	if len(p.Values) > 0 {
		w.WriteString(`,"values":[`)
		for i, v := range p.Values {
			writeComma(w, i == 0)
			writeJSONObject(w, appendValue(numbers[:0], v))
		}
		w.WriteByte(']')
	}
	w.WriteByte('}')
}

// writeJSONNumbers writes an element of an array: an object of members.
func writeJSONNumbers(w *bufio.Writer, first bool, numbers []number) {
	writeSeparator(w, first)
	writeJSONObject(w, numbers)
}

func writeJSONObject(w *bufio.Writer, numbers []number) {
	w.WriteByte('{')
	for i, n := range numbers {
		writeComma(w, i == 0)
		writeJSONNumber(w, n)
	}
	w.WriteByte('}')
}

func writeJSONNumber(w *bufio.Writer, n number) {
	w.WriteByte('"')
	w.WriteString(n.name)
	w.WriteString(`":`)
	w.Write(strconv.AppendInt(w.AvailableBuffer(), n.value, 10))
}
