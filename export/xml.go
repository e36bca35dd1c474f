package export

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
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
	if err := writeXMLFields(w, "meta", meta); err != nil {
		return err
	}
	w.WriteByte('\n')
	for _, s := range sections {
		if err := s.writeXML(w, c); err != nil {
			return err
		}
	}
	w.WriteString("</ccmap>\n")
	return nil
}

// writeXML writes the list in an element of its own.
func (l list[D]) writeXML(w *bufio.Writer, c *canonical) error {
	return l.write(w, c, "<"+l.list+">", "", "\n</"+l.list+">\n", func(b []byte, d *D) ([]byte, error) {
		return l.appendXML(b, l.record, d)
	})
}

func (fields[D]) appendXML(b []byte, name string, d *D) ([]byte, error) {
	w := bytes.NewBuffer(b)
	err := writeXMLFields(w, name, d)
	return w.Bytes(), err
}

// writeXMLFields writes an element as the tags of a struct say.
func writeXMLFields(w io.Writer, name string, v any) error {
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	return encoder.EncodeElement(v, xml.StartElement{Name: xml.Name{Local: name}})
}

func (c columns[D]) appendXML(b []byte, name string, d *D) ([]byte, error) {
	return c.appendElement(b, name, d), nil
}

// appendElement appends an element of attributes alone.
func (c columns[D]) appendElement(b []byte, name string, d *D) []byte {
	b = c.append(append(append(b, '<'), name...), &xmlNotation, d)
	return append(b, xmlNotation.end...)
}

func (pointCodec) appendXML(b []byte, name string, d *pointDoc) ([]byte, error) {
	b = append(append(b, '<'), name...)
	b = append(append(append(b, ` origin="`...), d.Origin...), `" kind="`...)
	b = pointColumns.append(append(append(b, d.Kind...), '"'), &xmlNotation, d)
	b = append(b, '>')
	if d.Context != nil {
		b = append(b, "<context>"...)
		for i := range d.Context {
			b = frameColumns.appendElement(b, "caller", &d.Context[i])
		}
		b = append(b, "</context>"...)
	}
	for i := range d.Values {
		b = valueColumns.appendElement(b, "value", &d.Values[i])
	}
	return append(append(append(b, "</"...), name...), '>'), nil
}

// readXML reads the document of ccmap.xsd. Elements and attributes that it does
// not know are skipped. Errors say the line.
func readXML(r *bufio.Reader, b *builder) error {
	elements := newElementReader(r, b)
	tokens := &shallowTokens{Decoder: xml.NewDecoder(elements)}
	x := xmlReader{xml.NewTokenDecoder(tokens), tokens, elements, b}
	if err := x.document(); err != nil {
		line, _ := tokens.InputPos()
		return fmt.Errorf("line %d: %w", line+tokens.scanned, err)
	}
	return nil
}

type xmlReader struct {
	*xml.Decoder // of the tokens
	tokens       *shallowTokens
	elements     *elementReader
	b            *builder
}

// maxNesting bounds the elements in each other. The schema has five.
const maxNesting = 64

// shallowTokens are the tokens of a document whose elements do not nest deeply. The
// decoder that takes them keeps a stack of the elements, which else would have no bound.
type shallowTokens struct {
	*xml.Decoder
	depth   int
	scanned int // lines to add to the count of the decoder
}

func (s *shallowTokens) Token() (xml.Token, error) {
	t, err := s.RawToken()
	switch t.(type) {
	case xml.StartElement:
		if s.depth++; s.depth > maxNesting {
			return nil, fmt.Errorf("%w: more than %d elements in each other", ErrTooDeep, maxNesting)
		}
	case xml.EndElement:
		s.depth--
	}
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		err = &xml.SyntaxError{Msg: syntax.Msg, Line: syntax.Line + s.scanned}
	}
	return t, err
}

func (x xmlReader) document() error {
	root, err := x.root()
	if err != nil {
		return err
	}
	if err := x.ccmap(root); err != nil {
		return err
	}
	if err := x.children(x.section); err != nil {
		return err
	}
	return x.end()
}

// root returns the first element.
func (x xmlReader) root() (xml.StartElement, error) {
	for {
		t, err := x.token()
		if err != nil {
			return xml.StartElement{}, err
		}
		if start, ok := t.(xml.StartElement); ok {
			return start, nil
		}
	}
}

// token returns the next token. The document must not end before it.
func (x xmlReader) token() (xml.Token, error) {
	t, err := x.Token()
	var syntax *xml.SyntaxError
	switch {
	case err == io.EOF, errors.As(err, &syntax) && syntax.Msg == "unexpected EOF":
		return nil, fmt.Errorf("the file is cut short: %w", io.ErrUnexpectedEOF)
	case syntax != nil:
		return nil, errors.New(syntax.Msg)
	}
	return t, err
}

// ccmap reads the attributes of the root element.
func (x xmlReader) ccmap(root xml.StartElement) error {
	if root.Name.Local != "ccmap" {
		return fmt.Errorf("%w: it is XML of <%s>, not of <ccmap>", ErrFormat, root.Name.Local)
	}
	version := 0
	for _, a := range root.Attr {
		var err error
		switch a.Name.Local {
		case "version":
			version, err = strconv.Atoi(a.Value)
		case "activations_exact":
			var exact bool
			exact, err = strconv.ParseBool(a.Value)
			x.b.m.SetExact(exact)
		}
		if err != nil {
			return fmt.Errorf("attribute %s of <ccmap>: %w", a.Name.Local, err)
		}
	}
	return checkVersion(version)
}

// children calls f for each child element, up to the end of the element that
// was started. f reads the child to its end.
func (x xmlReader) children(f func(xml.StartElement) error) error {
	for {
		t, err := x.token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if err := f(t); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		}
	}
}

// section reads a list, or the description.
func (x xmlReader) section(start xml.StartElement) error {
	if start.Name.Local == "meta" {
		return x.meta(start)
	}
	if s := findSection(start.Name.Local); s != nil {
		return s.readXML(x)
	}
	return x.Skip()
}

func (x xmlReader) meta(start xml.StartElement) error {
	var d metaDoc
	if err := x.DecodeElement(&d, &start); err != nil {
		return fmt.Errorf("<meta>: %w", err)
	}
	if err := x.b.describe(d); err != nil {
		return fmt.Errorf("<meta>: %w", err)
	}
	return nil
}

// readXML reads the records of the list.
func (l list[D]) readXML(x xmlReader) error {
	if err := l.scanXML(x); err != nil {
		return err
	}
	d := new(D)
	return x.children(func(start xml.StartElement) error {
		if start.Name.Local != l.record {
			return x.Skip()
		}
		*d = *new(D)
		if err := l.takeXML(x, start, d); err != nil {
			return fmt.Errorf("<%s>: %w", l.record, err)
		}
		x.elements.reset()
		return l.add(x.b, d)
	})
}

// scanXML reads the records at the beginning of the list, as far as they are in our form.
func (l list[D]) scanXML(x xmlReader) error {
	records, ok := l.codec.(scanner[D])
	if isEmpty := x.elements.lastButOne == '/'; !ok || isEmpty {
		return nil
	}
	begin := "\n<" + l.record
	add := func(d *D) error { return l.add(x.b, d) }
	_, lines, err := scanRecords(x.elements.source, records, &xmlNotation, begin, begin, add)
	x.tokens.scanned += lines
	x.elements.reset()
	return err
}

func (fields[D]) takeXML(x xmlReader, start xml.StartElement, d *D) error {
	return x.DecodeElement(d, &start)
}

func (c columns[D]) takeXML(x xmlReader, start xml.StartElement, d *D) error {
	r := c.reader(d)
	for _, a := range start.Attr {
		if err := r.setNumber(a.Name.Local, a.Value); err != nil {
			return err
		}
	}
	if err := r.finish(); err != nil {
		return err
	}
	return x.Skip()
}

func (pointCodec) takeXML(x xmlReader, start xml.StartElement, d *pointDoc) error {
	r := pointColumns.reader(d)
	for _, a := range start.Attr {
		switch a.Name.Local {
		case "origin":
			d.Origin = a.Value
		case "kind":
			d.Kind = a.Value
		default:
			if err := r.setNumber(a.Name.Local, a.Value); err != nil {
				return err
			}
		}
	}
	return x.children(func(start xml.StartElement) error { return x.pointPart(start, d) })
}

// pointPart reads an element of a point.
func (x xmlReader) pointPart(start xml.StartElement, d *pointDoc) error {
	switch start.Name.Local {
	case "context":
		d.Context = []frameDoc{}
		return x.children(func(start xml.StartElement) error {
			if start.Name.Local != "caller" {
				return x.Skip()
			}
			return takeXMLPart(x, start, frameColumns, &d.Context)
		})
	case "value":
		return takeXMLPart(x, start, valueColumns, &d.Values)
	}
	return x.Skip()
}

// takeXMLPart appends a record to a list in another record.
func takeXMLPart[D any](x xmlReader, start xml.StartElement, c columns[D], to *[]D) error {
	*to = append(*to, *new(D))
	return c.takeXML(x, start, &(*to)[len(*to)-1])
}

// end makes sure that nothing follows the root element.
func (x xmlReader) end() error {
	for {
		switch t, err := x.Token(); t.(type) {
		case nil:
			if err == io.EOF {
				return nil
			}
			return err
		case xml.StartElement:
			return errors.New("a second root element")
		}
	}
}
