package export

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// readXML reads the document of ccmap.xsd. Elements and attributes that it does
// not know are skipped. Errors say the line.
func readXML(r *bufio.Reader, b *builder) error {
	elements := newElementReader(r, b)
	tokens := &shallowTokens{Decoder: xml.NewDecoder(elements)}
	x := xmlReader{xml.NewTokenDecoder(tokens), elements, b}
	if err := x.document(); err != nil {
		line, _ := tokens.InputPos()
		return fmt.Errorf("line %d: %w", line, err)
	}
	return nil
}

type xmlReader struct {
	*xml.Decoder // of shallowTokens
	elements     *elementReader
	b            *builder
}

// maxNesting bounds the elements in each other. The schema has five.
const maxNesting = 64

// shallowTokens are the tokens of a document whose elements do not nest deeply. The
// decoder that takes them keeps a stack of the elements, which else would have no bound.
type shallowTokens struct {
	*xml.Decoder
	depth int
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

// token is the next one of a document that has not ended.
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

func (x xmlReader) section(start xml.StartElement) error {
	switch start.Name.Local {
	case "meta":
		return x.meta(start)
	case "methods":
		return xmlElements(x, "method", methodDoc{}, x.b.addMethod)
	case "nodes":
		return x.children(x.node)
	case "lines":
		return xmlElements(x, "line", newLineDoc(), x.b.addLine)
	case "inlined":
		return xmlElements(x, "call", newInlinedDoc(), x.b.addInlined)
	case "mappings":
		return xmlElements(x, "mapping", mappingDoc{}, x.b.addMapping)
	case "addresses":
		return xmlElements(x, "address", addressDoc{}, x.b.addAddress)
	case "pruned_edges":
		return xmlElements(x, "edge", newPrunedEdgeDoc(), x.b.addPrunedEdge)
	case "pruned_methods":
		return xmlElements(x, "method", prunedMethodDoc{Method: noMethod}, x.b.addPrunedMethod)
	case "points":
		return x.children(x.point)
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

// xmlElements reads children of a name, which begin as what is left out says.
func xmlElements[D any](x xmlReader, name string, leftOut D, add func(D) error) error {
	return x.children(func(start xml.StartElement) error {
		if start.Name.Local != name {
			return x.Skip()
		}
		d := leftOut
		if err := x.DecodeElement(&d, &start); err != nil {
			return fmt.Errorf("<%s>: %w", name, err)
		}
		x.elements.reset()
		return add(d)
	})
}

// node is decoded by hand: encoding/xml takes three times as long by reflection,
// and there is a node for every context.
func (x xmlReader) node(start xml.StartElement) error {
	if start.Name.Local != "node" {
		return x.Skip()
	}
	d := nodeDoc{Parent: -1, Offset: -1, Method: noMethod}
	for _, a := range start.Attr {
		field := d.field(a.Name.Local)
		if field == nil {
			continue
		}
		v, err := strconv.ParseInt(a.Value, 10, 64)
		if err != nil {
			return fmt.Errorf("attribute %s of <node>: %w", a.Name.Local, err)
		}
		*field = v
	}
	x.elements.reset()
	if err := x.b.addNode(d); err != nil {
		return err
	}
	return x.Skip()
}

// field returns the field of this name, or nil.
func (d *nodeDoc) field(name string) *int64 {
	switch name {
	case "parent":
		return &d.Parent
	case "offset":
		return &d.Offset
	case "method":
		return &d.Method
	case "samples":
		return &d.Samples
	case "time_ns":
		return &d.Time
	case "activations":
		return &d.Activations
	case "recent_samples":
		return &d.RecentSamples
	case "recent_time_ns":
		return &d.RecentTime
	}
	return nil
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
