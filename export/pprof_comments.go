package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The comments of our profiles hold the parts of a description that profile.proto has no
// field for: a line
// "ccmapd {…}", a JSON object with the keys of the schema's meta, and a line for each
// comment of the profile. go tool pprof prints all of them above every report, so that
// more than mostComments are kept in the object. Until there was an object, each key
// had a line "ccmapd KEY VALUE", and each element of a list; those are still read.
//
// A line "#ccmapd {…}" holds what is too long to be read by people: the bodies of methods. go tool
// pprof does not print it.
const (
	commentPrefix = "ccmapd "
	hiddenPrefix  = "#" + commentPrefix
	versionKey    = "version"
	exactKey      = "activations_exact"
	bodiesKey     = "bodies"

	mostComments = 4 // beside the object
)

// bodyDoc is the body of a method, which profile.proto has no field for.
type bodyDoc struct {
	Name      text `json:"name"`
	Signature text `json:"signature,omitempty"`
	Body      hex  `json:"body"`
}

// appendBodies appends a comment with the bodies of methods, if any is known.
func appendBodies(comments []string, methods []ccmap.Method) ([]string, error) {
	var docs []bodyDoc
	for i := range methods {
		if m := &methods[i]; m.Body != 0 {
			docs = append(docs, bodyDoc{text(m.Name), text(m.Signature), hex(m.Body)})
		}
	}
	if docs == nil {
		return comments, nil
	}
	object, err := marshal(map[string][]bodyDoc{bodiesKey: docs})
	return append(comments, hiddenPrefix+string(object)), err
}

// methodBodies returns the bodies of methods.
func (f commentFields) methodBodies() ([]bodyDoc, error) {
	docs := make([]bodyDoc, len(f[bodiesKey]))
	for i, value := range f[bodiesKey] {
		if err := json.Unmarshal(value, &docs[i]); err != nil {
			return nil, fmt.Errorf("comment %q: %w", bodiesKey, err)
		}
	}
	return docs, nil
}

// pprofComments returns the comments of a snapshot, but bodies.
func pprofComments(s *ccmap.Snapshot) ([]string, error) {
	doc, err := newMetaDoc(s)
	if err != nil {
		return nil, err
	}
	doc.Kind, doc.Unit = "", "" // the sample types say it
	comments := s.Meta().Comments
	if len(comments) <= mostComments && !slices.ContainsFunc(comments, isNoLine) {
		doc.Comments = nil
	} else {
		comments = nil
	}
	object, err := marshal(struct {
		Version int  `json:"version"`
		Exact   bool `json:"activations_exact"`
		metaDoc
	}{Version, s.ActivationsExact(), doc})
	if err != nil {
		return nil, err
	}
	return append([]string{commentPrefix + string(object)}, comments...), nil
}

// isNoLine reports whether a comment cannot be a line of its own: it could be taken
// for one of ours, or is no text.
func isNoLine(comment string) bool {
	return comment == "" || strings.HasPrefix(strings.TrimPrefix(comment, "#"), commentPrefix) || !utf8.ValidString(comment) ||
		strings.ContainsFunc(comment, unicode.IsControl)
}

// elements returns the elements of a list, and any other value as it is.
func elements(value json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return []json.RawMessage{value}
	}
	return list
}

// commentFields are the values of our comments, by key.
type commentFields map[string][]json.RawMessage

// parseComments sorts comments into ours and others'. It returns nil fields for
// a profile that ccmapd did not write.
func parseComments(comments []string) (ours commentFields, others []string) {
	ours = make(commentFields)
	for _, c := range comments {
		if hidden, isHidden := strings.CutPrefix(c, hiddenPrefix); isHidden && ours.addObject(hidden) {
			continue
		}
		rest, isOurs := strings.CutPrefix(c, commentPrefix)
		if isOurs && ours.addObject(rest) {
			continue
		}
		key, value, isPair := strings.Cut(rest, " ")
		if !isOurs || !isPair {
			others = append(others, c)
			continue
		}
		ours[key] = append(ours[key], json.RawMessage(value))
	}
	if ours[versionKey] == nil {
		return nil, comments
	}
	return ours, others
}

// addObject adds the fields of an object, if it is one.
func (f commentFields) addObject(text string) bool {
	var fields map[string]json.RawMessage
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &fields) != nil {
		return false
	}
	for key, value := range fields {
		if list := elements(value); len(list) > 0 {
			f[key] = append(f[key], list...)
		}
	}
	return true
}

// restore sets the description of the map, which the comments hold. Where pprof merged profiles,
// there are many values for one key: of lists, all are taken, else the first.
func (f commentFields) restore(b *builder) error {
	var version int
	if err := json.Unmarshal(f[versionKey][0], &version); err != nil {
		return fmt.Errorf("comment %q: %w", versionKey, err)
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	exact := f[exactKey]
	b.m.SetExact(len(exact) > 0 && !slices.ContainsFunc(exact, isNotTrue))
	var doc metaDoc
	if err := json.Unmarshal(f.object(), &doc); err != nil {
		return fmt.Errorf("comments: %w", err)
	}
	return b.describe(doc)
}

func isNotTrue(v json.RawMessage) bool { return string(v) != "true" }

// object puts the fields of meta together again.
func (f commentFields) object() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(f)) {
		if i > 0 {
			b.WriteByte(',')
		}
		value := f[key][0]
		if key == "intervals" || key == "comments" {
			value = slices.Concat(json.RawMessage("["), bytes.Join(asBytes(f[key]), []byte(",")), json.RawMessage("]"))
		}
		fmt.Fprintf(&b, "%q:%s", key, value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func asBytes(list []json.RawMessage) [][]byte {
	var to [][]byte
	for _, v := range list {
		to = append(to, v)
	}
	return to
}
