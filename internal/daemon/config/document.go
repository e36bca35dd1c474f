package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/ccmapd/ccmapd/internal/terminal"
)

// document is a file that is being read: its values, where they stand, and what is wrong
// with them. The decoder of go-toml can refuse unknown keys, but takes time that grows
// with their number times the length of the file, and knows no place of a value.
type document struct {
	file
	values  map[string]any
	places  map[string]int // offsets of keys, by path
	targets []targetTable
	wrong   []wrong
}

// wrong is an error whose line was not counted yet.
type wrong struct {
	at     int
	key    string
	reason string
}

const (
	// mostErrors of a file are reported.
	mostErrors = 20
	// deepest is the length of the longest path that the daemon knows: target, match, exe.
	deepest = 3
)

// open reads TOML.
func open(f file) (*document, error) {
	d := &document{file: f, values: make(map[string]any), places: make(map[string]int)}
	if len(f.text) > MaxBytes {
		return nil, d.named(fmt.Errorf("the configuration is longer than %d KiB", MaxBytes>>10))
	}
	if err := toml.Unmarshal(f.text, &d.values); err != nil {
		return nil, d.named(syntaxError(err))
	}
	d.place()
	return d, nil
}

// named adds the name of the file to an error.
func (f file) named(err error) error {
	if err == nil || f.name == "" {
		return err
	}
	return fmt.Errorf("configuration %s: %w", f.name, err)
}

// syntaxError keeps the place of an error, and drops the part of the file that it quotes.
func syntaxError(err error) error {
	var syntax *toml.DecodeError
	if !errors.As(err, &syntax) {
		return err
	}
	line, column := syntax.Position()
	return &Error{line, column, "", strings.TrimPrefix(terminal.Printable(syntax.Error()), "toml: ")}
}

// place notes where each key stands.
func (d *document) place() {
	var p unstable.Parser
	p.Reset(d.text)
	table := "" // of the keys that follow
	count := make(map[string]int)
	for p.NextExpression() {
		switch n := p.Expression(); n.Kind {
		case unstable.Table:
			table = d.placeKey("", n, count)
		case unstable.ArrayTable:
			table = d.placeElement(n, count)
		case unstable.KeyValue:
			d.placeValue(table, n, count)
		}
	}
}

// placeKey notes where the parts of a key stand, and returns its path. A part that is an
// array of tables stands for its last table.
func (d *document) placeKey(table string, n *unstable.Node, count map[string]int) string {
	path := table
	parts := n.Key()
	for range deepest {
		if !parts.Next() {
			break
		}
		path = join(path, string(parts.Node().Data))
		if n, is := count[path]; is {
			path = element(path, n-1)
		}
		d.note(path, parts.Node().Raw)
	}
	return path
}

// placeElement begins another table of an array.
func (d *document) placeElement(n *unstable.Node, count map[string]int) string {
	path, last := "", unstable.Range{}
	parts := n.Key()
	for range deepest {
		if !parts.Next() {
			break
		}
		path, last = join(path, string(parts.Node().Data)), parts.Node().Raw
	}
	d.note(path, last)
	count[path]++
	path = element(path, count[path]-1)
	d.note(path, last)
	return path
}

// placeValue notes where a key stands, and the keys of the tables in its value.
func (d *document) placeValue(table string, n *unstable.Node, count map[string]int) {
	path := d.placeKey(table, n, count)
	if strings.Count(path, ".") >= deepest {
		return
	}
	d.placeInside(path, n.Value())
}

func (d *document) placeInside(path string, value *unstable.Node) {
	switch children := value.Children(); value.Kind {
	case unstable.InlineTable:
		for children.Next() {
			d.placeValue(path, children.Node(), nil)
		}
	case unstable.Array:
		for i := 0; children.Next(); i++ {
			if child := children.Node(); child.Kind == unstable.InlineTable {
				d.note(element(path, i), child.Raw)
				d.placeInside(element(path, i), child)
			}
		}
	}
}

func (d *document) note(path string, at unstable.Range) {
	if _, known := d.places[path]; !known {
		d.places[path] = int(at.Offset)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// fail notes what is wrong with the value of a path. A path without a place stands where its table does.
func (d *document) fail(path, reason string, args ...any) {
	at, known := d.places[path]
	for table := path; !known && table != ""; {
		table = table[:max(strings.LastIndexByte(table, '.'), 0)]
		at, known = d.places[table]
	}
	d.wrong = append(d.wrong, wrong{at, path, fmt.Sprintf(reason, args...)})
}

// failed reports whether a key below a path is wrong already.
func (d *document) failed(path string) bool {
	return slices.ContainsFunc(d.wrong, func(w wrong) bool { return strings.HasPrefix(w.key, path+".") })
}

// err returns what is wrong, in the order of the file.
func (d *document) err() error {
	slices.SortStableFunc(d.wrong, func(a, b wrong) int { return cmp.Compare(a.at, b.at) })
	var all []error
	for _, w := range d.wrong[:min(len(d.wrong), mostErrors)] {
		line, column := d.lineOf(w.at)
		all = append(all, &Error{line, column, terminal.Printable(w.key), w.reason})
	}
	if more := len(d.wrong) - len(all); more > 0 {
		all = append(all, fmt.Errorf("and %d more errors", more))
	}
	return d.named(errors.Join(all...))
}

func (d *document) lineOf(at int) (line, column int) {
	before := d.text[:at]
	return bytes.Count(before, []byte("\n")) + 1, at - bytes.LastIndexByte(before, '\n')
}

// field is one key of a table, and the function that takes its value.
type field struct {
	key string
	set func(value any) error
}

// read gives the values of a table to its fields, and notes the keys that are not among
// them.
func (d *document) read(path string, table map[string]any, fields []field) {
	for key, value := range table {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			d.fail(join(path, key), "unknown key: %s", allowed(path, fields))
			continue
		}
		if err := fields[i].set(value); err != nil {
			d.fail(join(path, key), "%v", err)
		}
	}
}

// allowed lists the keys of a table.
func allowed(path string, fields []field) string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	if path == "" {
		path = "the file"
	}
	return path + " has " + strings.Join(keys, ", ")
}

// table returns a field that is a table with fields of its own.
func (d *document) table(path, key string, fields []field) field {
	return field{key, func(value any) error {
		table, is := value.(map[string]any)
		if !is {
			return fmt.Errorf("must be a table, [%s]", join(path, key))
		}
		d.read(join(path, key), table, fields)
		return nil
	}}
}

// tables returns a field that is an array of tables, and calls each for each of them.
func (d *document) tables(key string, each func(path string, table map[string]any)) field {
	return field{key, func(value any) error {
		all, is := value.([]any)
		if !is {
			return fmt.Errorf("must be tables, each after a line [[%s]]", key)
		}
		for i, value := range all {
			table, is := value.(map[string]any)
			if !is {
				return fmt.Errorf("must be tables, each after a line [[%s]]", key)
			}
			each(element(key, i), table)
		}
		return nil
	}}
}
