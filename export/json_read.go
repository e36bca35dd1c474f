package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readJSON reads the document of ccmap.schema.json. Members that it does not
// know are skipped. Errors say the byte.
func readJSON(r *bufio.Reader, b *builder) error {
	elements := newElementReader(r, b)
	j := &jsonReader{Decoder: json.NewDecoder(elements), elements: elements, b: b}
	err := j.document()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the file is cut short: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return fmt.Errorf("byte %d: %w", j.InputOffset(), err)
	}
	return nil
}

type jsonReader struct {
	*json.Decoder
	elements *elementReader
	b        *builder
	version  int // 0: not seen yet
}

func (j *jsonReader) document() error {
	if err := j.object(j.section); err != nil {
		return err
	}
	if j.version == 0 {
		return fmt.Errorf("%w: it is JSON without ccmap_version, no dump of a map", ErrFormat)
	}
	if _, err := j.Token(); err != io.EOF {
		return errors.New("something follows the document")
	}
	return nil
}

// section reads the value of a member of the document. A version that is too new
// is refused before anything else can confuse us, since it is written first.
func (j *jsonReader) section(name string) error {
	switch name {
	case "ccmap_version":
		if err := j.Decode(&j.version); err != nil {
			return err
		}
		return checkVersion(j.version)
	case "activations_exact":
		var exact bool
		err := j.Decode(&exact)
		j.b.m.SetExact(exact)
		return err
	case "meta":
		return j.meta()
	case "methods":
		return jsonElements(j, methodDoc{}, j.b.addMethod)
	case "nodes":
		return jsonElements(j, nodeDoc{Parent: -1, Offset: -1, Method: noMethod}, j.b.addNode)
	case "lines":
		return jsonElements(j, newLineDoc(), j.b.addLine)
	case "inlined":
		return jsonElements(j, newInlinedDoc(), j.b.addInlined)
	case "mappings":
		return jsonElements(j, mappingDoc{}, j.b.addMapping)
	case "addresses":
		return jsonElements(j, addressDoc{}, j.b.addAddress)
	case "pruned_edges":
		return jsonElements(j, newPrunedEdgeDoc(), j.b.addPrunedEdge)
	case "pruned_methods":
		return jsonElements(j, prunedMethodDoc{Method: noMethod}, j.b.addPrunedMethod)
	case "points":
		return jsonElements(j, pointDoc{}, j.b.addPoint)
	}
	var unknown json.RawMessage
	return j.Decode(&unknown)
}

func (j *jsonReader) meta() error {
	var d metaDoc
	if err := j.Decode(&d); err != nil {
		return err
	}
	return j.b.describe(d)
}

// jsonElements reads an array, whose elements begin as what is left out says.
func jsonElements[D any](j *jsonReader, leftOut D, add func(D) error) error {
	return j.array(func() error {
		d := leftOut
		if err := j.Decode(&d); err != nil {
			return err
		}
		j.elements.reset()
		return add(d)
	})
}

// object calls f with the name of each member, for it to read the value.
func (j *jsonReader) object(f func(name string) error) error {
	if err := j.delim('{'); err != nil {
		return err
	}
	for j.More() {
		name, err := j.Token()
		if err != nil {
			return err
		}
		if err := f(name.(string)); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return j.delim('}')
}

// array calls f for each element, for it to read it.
func (j *jsonReader) array(f func() error) error {
	if err := j.delim('['); err != nil {
		return err
	}
	for j.More() {
		if err := f(); err != nil {
			return err
		}
	}
	return j.delim(']')
}

func (j *jsonReader) delim(want json.Delim) error {
	t, err := j.Token()
	if err == nil && t != want {
		err = fmt.Errorf("want %v, found %v", want, t)
	}
	return err
}
