package export

import (
	"bufio"
	"encoding/xml"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
)

// writeXML writes the document of ccmap.xsd: one element a line. The nodes are a
// flat list, since nesting them would break parsers that bound the depth
// (libxml2: 256 unless told otherwise).
func writeXML(w *bufio.Writer, c *canonical) error {
	meta, err := newMetaDoc(c.snapshot)
	if err != nil {
		return err
	}
	w.WriteString(xml.Header)
	w.WriteString(`<ccmap version="` + strconv.Itoa(Version) +
		`" activations_exact="` + strconv.FormatBool(c.snapshot.ActivationsExact()) + "\">\n")
	if err := writeElement(w, "meta", meta); err != nil {
		return err
	}
	w.WriteString("<methods>\n")
	for _, m := range c.methods {
		if err := writeElement(w, "method", newMethodDoc(m)); err != nil {
			return err
		}
	}
	w.WriteString("</methods>\n<nodes>\n")
	var numbers []number
	for e := range c.entries() {
		numbers = e.numbers(numbers[:0])
		writeXMLNumbers(w, "node", numbers)
	}
	w.WriteString("</nodes>\n")
	if lines := c.lines(); len(lines) > 0 {
		writeXMLLines(w, lines)
	}
	if calls := c.inlined(); len(calls) > 0 {
		writeXMLInlined(w, calls)
	}
	if err := writeXMLElements(w, "mappings", "mapping", c.mappings()); err != nil {
		return err
	}
	if err := writeXMLElements(w, "addresses", "address", c.addresses()); err != nil {
		return err
	}
	if c.bases {
		writeXMLPruned(w, c)
	}
	if len(c.points) > 0 {
		writeXMLPoints(w, c)
	}
	w.WriteString("</ccmap>\n")
	return nil
}

// writeXMLLines writes the lines of positions, one a line.
func writeXMLLines(w *bufio.Writer, lines []frameLine) {
	w.WriteString("<lines>\n")
	var numbers [3]number
	for _, l := range lines {
		writeXMLNumbers(w, "line", l.numbers(numbers[:0]))
	}
	w.WriteString("</lines>\n")
}

// writeXMLInlined writes the inlined calls, one a line.
func writeXMLInlined(w *bufio.Writer, calls []inlinedCall) {
	w.WriteString("<inlined>\n")
	var numbers [3]number
	for _, call := range calls {
		writeXMLNumbers(w, "call", call.numbers(numbers[:0]))
	}
	w.WriteString("</inlined>\n")
}

// writeXMLElements writes a list in an element of its own, if it is not empty.
func writeXMLElements[D any](w *bufio.Writer, list, name string, docs []D) error {
	if len(docs) == 0 {
		return nil
	}
	w.WriteString("<" + list + ">\n")
	for _, d := range docs {
		if err := writeElement(w, name, d); err != nil {
			return err
		}
	}
	w.WriteString("</" + list + ">\n")
	return nil
}

// writeXMLPruned writes what the removed nodes had counted.
func writeXMLPruned(w *bufio.Writer, c *canonical) {
	w.WriteString("<pruned_edges>\n")
	for _, e := range c.prunedEdges() {
		writeXMLNumbers(w, "edge", c.prunedEdgeNumbers(nil, e))
	}
	w.WriteString("</pruned_edges>\n<pruned_methods>\n")
	for _, p := range c.prunedMethods() {
		writeXMLNumbers(w, "method", c.prunedMethodNumbers(nil, p))
	}
	w.WriteString("</pruned_methods>\n")
}

// writeXMLPoints writes the profile points, one a line.
func writeXMLPoints(w *bufio.Writer, c *canonical) {
	w.WriteString("<points>\n")
	for i := range c.points {
		writeXMLPoint(w, &c.points[i])
	}
	w.WriteString("</points>\n")
}

func writeXMLPoint(w *bufio.Writer, p *ccmap.Point) {
	var numbers [8]number
	w.WriteString(`<point origin="` + p.Origin.String() + `" kind="` + p.Kind.String() + `"`)
	writeXMLAttributes(w, pointNumbers(numbers[:0], p))
	w.WriteByte('>')
	if p.Callers != nil {
		w.WriteString("<context>")
		for _, f := range p.Callers {
			writeXMLEmpty(w, "caller", appendFrame(numbers[:0], f))
		}
		w.WriteString("</context>")
	}
	for _, v := range p.Values {
		writeXMLEmpty(w, "value", appendValue(numbers[:0], v))
	}
	w.WriteString("</point>\n")
}

func writeElement(w *bufio.Writer, name string, v any) error {
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	err := encoder.EncodeElement(v, xml.StartElement{Name: xml.Name{Local: name}})
	w.WriteByte('\n')
	return err
}

// writeXMLNumbers writes an element of attributes on a line.
func writeXMLNumbers(w *bufio.Writer, name string, numbers []number) {
	writeXMLEmpty(w, name, numbers)
	w.WriteByte('\n')
}

func writeXMLEmpty(w *bufio.Writer, name string, numbers []number) {
	w.WriteByte('<')
	w.WriteString(name)
	writeXMLAttributes(w, numbers)
	w.WriteString("/>")
}

func writeXMLAttributes(w *bufio.Writer, numbers []number) {
	for _, n := range numbers {
		w.WriteByte(' ')
		w.WriteString(n.name)
		w.WriteString(`="`)
		w.Write(strconv.AppendInt(w.AvailableBuffer(), n.value, 10))
		w.WriteByte('"')
	}
}
