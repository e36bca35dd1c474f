package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// The comments of our profiles hold what profile.proto has no field for. Each
// is a line "ccmapd KEY VALUE", the value in JSON, the keys those of the JSON
// schema's meta; a list has a line for each element. They are read by people,
// too: go tool pprof -comments.
const (
	commentPrefix = "ccmapd "
	versionKey    = "version"
	exactKey      = "activations_exact"
)

// pprofComments returns the comments of a snapshot.
func pprofComments(s *ccmap.Snapshot) ([]string, error) {
	doc, err := newMetaDoc(s)
	if err != nil {
		return nil, err
	}
	doc.Kind, doc.Unit = "", "" // the sample types say it
	encoded, err := marshal(doc)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	comments := []string{
		comment(versionKey, Version),
		comment(exactKey, s.ActivationsExact()),
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		for _, value := range elements(fields[key]) {
			comments = append(comments, comment(key, string(value)))
		}
	}
	return comments, nil
}

func comment(key string, value any) string {
	return fmt.Sprintf("%s%s %v", commentPrefix, key, value)
}

// elements returns those of a list, and any other value as it is.
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
		rest, isOurs := strings.CutPrefix(c, commentPrefix)
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

// restore sets what the comments say of the map. Where pprof merged profiles,
// there are many values for one key: of lists, all are taken, else the first.
func (f commentFields) restore(m *ccmap.Map) error {
	var version int
	if err := json.Unmarshal(f[versionKey][0], &version); err != nil {
		return fmt.Errorf("comment %q: %w", versionKey, err)
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	exact := f[exactKey]
	m.SetExact(len(exact) > 0 && !slices.ContainsFunc(exact, isNotTrue))
	var doc metaDoc
	if err := json.Unmarshal(f.object(), &doc); err != nil {
		return fmt.Errorf("comments: %w", err)
	}
	return doc.restore(m)
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
