package export

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// writeJSON writes the document of ccmap.schema.json, one method and one node a
// line. The methods come before the nodes, so that a reader needs one pass.
func writeJSON(w *bufio.Writer, c *canonical) error {
	meta, err := newMetaDoc(c.snapshot)
	if err != nil {
		return err
	}
	value, err := marshal(meta)
	if err != nil {
		return err
	}
	w.WriteString("{\"ccmap_version\":" + strconv.Itoa(Version) +
		",\n\"activations_exact\":" + strconv.FormatBool(c.snapshot.ActivationsExact()) +
		",\n\"meta\":")
	w.Write(value)
	for _, s := range sections {
		if err := s.writeJSON(w, c); err != nil {
			return err
		}
	}
	w.WriteString("}\n")
	return nil
}

// writeJSON writes the list as a member.
func (l list[D]) writeJSON(w *bufio.Writer, c *canonical) error {
	return l.write(w, c, ",\n\""+l.list+"\":[", ",", "\n]", l.appendJSON)
}

func (fields[D]) appendJSON(b []byte, d *D) ([]byte, error) {
	value, err := marshal(d)
	return append(b, value...), err
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

func (c columns[D]) appendJSON(b []byte, d *D) ([]byte, error) { return c.appendObject(b, d), nil }

// appendObject appends an object of numbers.
func (c columns[D]) appendObject(b []byte, d *D) []byte {
	return append(c.append(append(b, '{'), &jsonNotation, d), jsonNotation.end...)
}

func (pointCodec) appendJSON(b []byte, d *pointDoc) ([]byte, error) {
	b = append(append(b, `{"origin":"`...), d.Origin...)
	b = append(append(append(b, `","kind":"`...), d.Kind...), `",`...)
	b = pointColumns.append(b, &jsonNotation, d) // it has a count at least
	if d.Context != nil {
		b = frameColumns.appendParts(append(b, `,"context":`...), d.Context)
	}
	if len(d.Values) > 0 {
		b = valueColumns.appendParts(append(b, `,"values":`...), d.Values)
	}
	return append(b, '}'), nil
}

// appendParts appends a list in another record.
func (c columns[D]) appendParts(b []byte, parts []D) []byte {
	b = append(b, '[')
	for i := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.appendObject(b, &parts[i])
	}
	return append(b, ']')
}

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
		return fmt.Errorf("byte %d: %w", j.offset(), err)
	}
	return nil
}

type jsonReader struct {
	*json.Decoder
	elements *elementReader
	b        *builder
	version  int             // 0: not seen yet
	value    json.RawMessage // scratch
	scanned  int64           // to add to the offset of the decoder
}

// offset returns the byte of the document that the reader has come to.
func (j *jsonReader) offset() int64 { return j.scanned + j.InputOffset() }

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
	}
	if s := findSection(name); s != nil {
		return s.readJSON(j)
	}
	return j.Decode(&j.value)
}

func (j *jsonReader) meta() error {
	var d metaDoc
	if err := j.Decode(&d); err != nil {
		return err
	}
	return j.b.describe(d)
}

// readJSON reads the records of the list.
func (l list[D]) readJSON(j *jsonReader) error {
	d := new(D)
	return j.array(func() error { return l.scanJSON(j) }, func() error {
		*d = *new(D)
		if err := l.takeJSON(j, d); err != nil {
			return err
		}
		j.elements.reset()
		return l.add(j.b, d)
	})
}

func (fields[D]) takeJSON(j *jsonReader, d *D) error { return j.Decode(d) }

func (c columns[D]) takeJSON(j *jsonReader, d *D) error {
	if err := j.Decode(&j.value); err != nil {
		return err
	}
	return c.takeMembers(j.value, d)
}

// takeMembers sets the numbers of an object that the decoder has found valid.
func (c columns[D]) takeMembers(object json.RawMessage, d *D) error {
	r := c.reader(d)
	err := eachMember(object, func(name, value []byte) error { return takeNumber(&r, name, value) })
	return cmp.Or(err, r.finish())
}

// takeNumber sets a number, unless it is null.
func takeNumber[D any](r *numberReader[D], name, value []byte) error {
	if string(value) == "null" {
		return nil
	}
	return r.setNumber(string(name), string(value))
}

func (pointCodec) takeJSON(j *jsonReader, d *pointDoc) error {
	if err := j.Decode(&j.value); err != nil {
		return err
	}
	r := pointColumns.reader(d)
	return eachMember(j.value, func(name, value []byte) error {
		switch string(name) {
		case "origin":
			return json.Unmarshal(value, &d.Origin)
		case "kind":
			return json.Unmarshal(value, &d.Kind)
		case "context":
			return frameColumns.takeParts(value, &d.Context)
		case "values":
			return valueColumns.takeParts(value, &d.Values)
		}
		return takeNumber(&r, name, value)
	})
}

// takeParts sets a list in another record. A list that is null is nil.
func (c columns[D]) takeParts(list json.RawMessage, to *[]D) error {
	if *to = nil; string(list) != "null" {
		*to = []D{}
	}
	return eachElement(list, func(value []byte) error {
		*to = append(*to, *new(D))
		return c.takeMembers(value, &(*to)[len(*to)-1])
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

// scanJSON reads the records at the beginning of the list, as far as they are in our form.
func (l list[D]) scanJSON(j *jsonReader) error {
	records, ok := l.codec.(scanner[D])
	if ahead, _ := j.Buffered().Read(make([]byte, 1)); !ok || ahead > 0 {
		return nil
	}
	add := func(d *D) error { return l.add(j.b, d) }
	size, _, err := scanRecords(j.elements.source, records, &jsonNotation, "\n{", ",\n{", add)
	j.scanned += int64(size)
	if size > 0 && err == nil {
		err = j.resume()
	}
	return err
}

// resume makes a decoder for the rest of the document, after an element of a list.
func (j *jsonReader) resume() error {
	const before = `{"":[{}`
	at := j.offset()
	j.elements.reset()
	j.Decoder = json.NewDecoder(io.MultiReader(strings.NewReader(before), j.elements))
	for j.InputOffset() < int64(len(before)) {
		if _, err := j.Token(); err != nil {
			return err
		}
	}
	j.scanned = at - j.InputOffset()
	return nil
}

// array calls begin after the bracket, and f for each element, for it to read it.
func (j *jsonReader) array(begin, f func() error) error {
	if err := j.delim('['); err != nil {
		return err
	}
	if err := begin(); err != nil {
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

// eachMember calls f with the name and value of each member of an object. The object is
// valid JSON, or null, which has none.
func eachMember(object []byte, f func(name, value []byte) error) error {
	rest, err := inside(object, '{')
	for err == nil && len(rest) > 0 {
		var name, value []byte
		name, rest = cutValue(rest)
		value, rest = cutValue(rest)
		if name, err = unquote(name); err == nil {
			err = f(name, value)
		}
	}
	return err
}

// eachElement calls f with each element of an array, as eachMember does.
func eachElement(array []byte, f func(value []byte) error) error {
	rest, err := inside(array, '[')
	for err == nil && len(rest) > 0 {
		var value []byte
		value, rest = cutValue(rest)
		err = f(value)
	}
	return err
}

// inside returns the inside of an object or array, by its first character.
func inside(value []byte, first byte) ([]byte, error) {
	switch value = trimSeparators(value); {
	case value[0] == first:
		return trimSeparators(value[1:bytes.LastIndexByte(value, first+2)]), nil // { } and [ ] are two apart
	case value[0] == 'n':
		return nil, nil
	}
	return nil, fmt.Errorf("want %c, found %c", first, value[0])
}

// cutValue cuts valid JSON after its first value, and drops the separators after it.
func cutValue(b []byte) (value, rest []byte) {
	end := valueEnd(b)
	return b[:end], trimSeparators(b[end:])
}

// valueEnd returns where the first value of valid JSON ends.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i += stringEnd(b[i:]) - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// stringEnd returns the length of the string that b begins with.
func stringEnd(b []byte) int {
	i := 1
	for ; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquote returns the text of a string.
func unquote(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	var s string
	err := json.Unmarshal(quoted, &s)
	return []byte(s), err
}

func trimSeparators(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == ',' || b[0] == ':' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}
