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
	meta, err := newMetaDoc(c.snapshot.Meta())
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
	for e := range c.entries() {
		writeXMLNode(w, e)
	}
	w.WriteString("</nodes>\n</ccmap>\n")
	return nil
}

func writeElement(w *bufio.Writer, name string, v any) error {
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	err := encoder.EncodeElement(v, xml.StartElement{Name: xml.Name{Local: name}})
	w.WriteByte('\n')
	return err
}

// writeXMLNode is written out by hand: encoding/xml takes many times as long,
// and there is a node for every context.
func writeXMLNode(w *bufio.Writer, e entry) {
	w.WriteString("<node")
	writeAttr(w, "parent", int64(e.parent))
	if e.Offset != ccmap.NoOffset {
		writeAttr(w, "offset", int64(int32(e.Offset)))
	}
	if e.method != noMethod {
		writeAttr(w, "method", int64(e.method))
	}
	writeCount(w, "samples", e.Self.Samples)
	writeCount(w, "time_ns", e.Self.Time)
	writeCount(w, "activations", e.Self.Activations)
	w.WriteString("/>\n")
}

func writeCount(w *bufio.Writer, name string, count int64) {
	if count != 0 {
		writeAttr(w, name, count)
	}
}

func writeAttr(w *bufio.Writer, name string, v int64) {
	w.WriteByte(' ')
	w.WriteString(name)
	w.WriteString(`="`)
	w.Write(strconv.AppendInt(w.AvailableBuffer(), v, 10))
	w.WriteByte('"')
}
