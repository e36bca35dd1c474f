package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler"
)

// printed are the types that commands print as JSON, beside the questions about profiles: folder and name.
var printed = []struct{ output, folder, name string }{
	{"`attach`, `run`", "cmd/ccmapd/internal/session", "ReportJSON"},
	{"`children` of these, with `--children`", "cmd/ccmapd/internal/family", "childrenJSON"},
	{"`hints`", "internal/feedback/hotspot", "File"},
	{"`apply`", "cmd/ccmapd", "appliedJSON"},
	{"`fanin`", "cmd/ccmapd", "fanInAnswer"},
	{"`fanin store`", "cmd/ccmapd", "storedFanIn"},
	{"`stuck`", "sampler/internal/memory", "Stuck"},
	{"`doctor`", "sampler/engine", "Report"},
	{"`version`", "cmd/ccmapd", "versionInfo"},
	{"`status`", "cmd/ccmapd", "daemonStatus"},
	{"`targets`", "cmd/ccmapd", "targetList"},
	{"`events`, `--on-hot json`: a line", "internal/daemon", "Event"},
	{"`data` of a `hot` event", "internal/recording", "Hot"},
	{"`data` of a `hint` event", "internal/daemon", "Hinted"},
	{"`store list`", "cmd/ccmapd", "storeList"},
	{"`store show`", "cmd/ccmapd", "shownProfile"},
	{"`store records`", "cmd/ccmapd", "storedRecords"},
	{"`store check`", "cmd/ccmapd", "checkedStore"},
	{"`store compact`", "cmd/ccmapd", "compactedStore"},
	{"`pgo export`", "cmd/ccmapd", "pgoExported"},
	{"`pgo check`", "cmd/ccmapd", "pgoChecked"},
	{"`pgo report`", "cmd/ccmapd", "pgoReported"},
	{"`pgo measure`", "cmd/ccmapd", "pgoMeasured"},
	{"`fleet targets`: a list", "cmd/ccmapd", "fleetTarget"},
	{"`fleet builds`: a list", "internal/fleet", "Build"},
	{"`fleet show`", "internal/fleet", "Description"},
	{"`fleet classes`: a list", "internal/fleet", "Class"},
	{"`fleet outliers`: a list", "internal/fleet", "OutlierOf"},
	{"`fleet nearest`: a list", "internal/fleet", "Near"},
	{"`fleet status`", "internal/fleet", "Status"},
}

// jsonRows matches the rows of the table of outputs.
var jsonRows = regexp.MustCompile("(?m)(^\\| `.*\\n)+")

// TestJSON holds that json.md has a row for each output in JSON, made of the types and columns that are printed. To
// write them anew: go test ./docs -run TestJSON -update
func TestJSON(t *testing.T) { // alone, before TestSchema reads what it writes
	var rows strings.Builder
	types := jsonTypes{}
	for _, p := range printed {
		members, err := types.members(p.folder, ast.NewIdent(p.name), nil, map[string]bool{})
		if err != nil || members == "" {
			t.Errorf("%s.%s has no members (%v)", p.folder, p.name, err)
		}
		members = strings.TrimSuffix(strings.TrimPrefix(members, " {"), "}")
		fmt.Fprintf(&rows, "| %s | %s |\n", p.output, strings.ReplaceAll(members, "|", "\\|"))
	}
	counted, inside := countersOfSource()
	fmt.Fprintf(&rows, "| `source` of `attach`, `run` | %s, `kernel_time`, `hit_reason` (why no calls are caught), `lacks` (what the source cannot tell); of threads that sample themselves `inside` {%s} |\n", counted, inside)
	fmt.Fprintf(&rows, "| `profile` of all that read one | %s |\n", membersOf(profileColumns(t), "profile.", map[string]bool{}))
	for _, q := range view.Questions() {
		fmt.Fprintf(&rows, "| `%s` | `profile`, %s |\n", q.Name, membersOf(q.Layout.Columns, "", map[string]bool{}))
		if q.ByLabel.Columns != nil {
			fmt.Fprintf(&rows, "| `%s --by label` | `profile`, %s |\n", q.Name, membersOf(q.ByLabel.Columns, "", map[string]bool{}))
		}
	}
	holdRows(t, "json.md", jsonRows, rows.String())
}

// profileColumns returns the columns of a question that has the profile.
func profileColumns(t *testing.T) []view.Column {
	for _, q := range view.Questions() {
		if slices.ContainsFunc(q.Layout.Columns, func(c view.Column) bool { return strings.HasPrefix(c.Key, "profile.") }) {
			return q.Layout.Columns
		}
	}
	t.Fatal("no question has columns of the profile")
	return nil
}

// countersOfSource lists the keys of the counters of sources, and of those whose threads sample themselves.
func countersOfSource() (counted, inside string) {
	var all, in []string
	for c := range sampler.NumCounters {
		switch key := "`" + c.Key() + "`"; {
		case c.Key() == "":
		case c.Inside():
			in = append(in, key)
		default:
			all = append(all, key)
		}
	}
	return strings.Join(all, ", "), strings.Join(in, ", ")
}

// jsonTypes are the packages of this module that declare types of JSON, by folder.
type jsonTypes map[string]*jsonPackage

// jsonPackage has the declarations of a package, and the types that write their JSON themselves.
type jsonPackage struct {
	specs map[string]*ast.TypeSpec
	files map[string]*ast.File // by type
	texts map[string]bool
}

// members describes the JSON of a type: its members in braces, or nothing for a single value. A type that is listed
// already stands as "{…}".
func (j jsonTypes) members(folder string, expr ast.Expr, file *ast.File, listed map[string]bool) (string, error) {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return j.members(folder, e.X, file, listed)
	case *ast.ArrayType:
		inner, err := j.members(folder, e.Elt, file, listed)
		if inner == "" {
			return "", err
		}
		return " [" + strings.TrimPrefix(inner, " ") + "]", err
	case *ast.StructType:
		fields, err := j.fields(folder, e, file, listed)
		return " {" + strings.Join(fields, ", ") + "}", err
	case *ast.SelectorExpr:
		other := importedFolder(file, e.X.(*ast.Ident).Name)
		if other == "" {
			return "", nil
		}
		return j.members(other, e.Sel, nil, listed)
	case *ast.Ident:
		p, err := j.load(folder)
		spec := p.specs[e.Name]
		if err != nil || spec == nil || p.texts[e.Name] {
			return "", err
		}
		if listed[folder+"."+e.Name] {
			return " {…}", nil
		}
		members, err := j.members(folder, spec.Type, p.files[e.Name], listed)
		listed[folder+"."+e.Name] = strings.HasPrefix(members, " {")
		return members, err
	}
	return "", nil
}

// fields describes the fields of a struct that have a key, each with its comment.
func (j jsonTypes) fields(folder string, of *ast.StructType, file *ast.File, listed map[string]bool) (all []string, err error) {
	for _, f := range of.Fields.List {
		var tag reflect.StructTag
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(text)
		}
		key, _, _ := strings.Cut(tag.Get("json"), ",")
		if key == "-" || key == "" && len(f.Names) > 0 {
			continue
		}
		seen := listed
		if key == "" { // embedded: written out wherever it is
			seen = map[string]bool{}
		}
		members, err := j.members(folder, f.Type, file, seen)
		if err != nil {
			return nil, err
		}
		if key == "" {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(members, " {"), "}"))
			continue
		}
		text := "`" + key + "`"
		if comment := strings.TrimSpace(tag.Get("doc") + f.Comment.Text()); comment != "" {
			text += " (" + strings.TrimSuffix(comment, ".") + ")"
		}
		all = append(all, text+members)
	}
	return all, nil
}

// importedFolder returns the folder of a package of this module that a file imports by a name, "" if it is another's.
func importedFolder(file *ast.File, name string) string {
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		folder, ours := strings.CutPrefix(path, "github.com/ccmapd/ccmapd/")
		if ours && (i.Name != nil && i.Name.Name == name || i.Name == nil && filepath.Base(path) == name) {
			return folder
		}
	}
	return ""
}

// load parses a package once.
func (j jsonTypes) load(folder string) (*jsonPackage, error) {
	if p := j[folder]; p != nil {
		return p, nil
	}
	p := &jsonPackage{map[string]*ast.TypeSpec{}, map[string]*ast.File{}, map[string]bool{}}
	j[folder] = p
	names, err := fs.Glob(os.DirFS(filepath.Join("..", folder)), "*.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", folder, name), nil, parser.ParseComments)
		if err != nil {
			return p, err
		}
		for _, d := range file.Decls {
			p.add(file, d)
		}
	}
	return p, err
}

// add takes in a declaration.
func (p *jsonPackage) add(file *ast.File, declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if spec, ok := s.(*ast.TypeSpec); ok {
				p.specs[spec.Name.Name], p.files[spec.Name.Name] = spec, file
			}
		}
	case *ast.FuncDecl:
		if d.Recv != nil && (d.Name.Name == "MarshalJSON" || d.Name.Name == "MarshalText") {
			p.texts[strings.TrimSuffix(receiver(d), ".")] = true
		}
	}
}
