package gopgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Source reads from the source of a module, in the directory of its main package or of the module, what it
// has of a profile's calls. Packages that it is built of are read where go.mod, the cache of modules and GOROOT
// have them. Nothing is run, and types are not checked: so a method is known by its last name. Errors wrap
// [ErrNoModule] and [ErrOtherProgram].
func Source(ctx context.Context, dir string, edges []Edge) (*Program, error) {
	m, err := openModule(dir)
	if err != nil {
		return nil, err
	}
	p := &Program{From: dir, functions: make(map[string]*function), packages: make(map[string]bool)}
	callers, _ := namesOf(edges)
	wanted := make(map[string]bool)
	for name := range callers {
		wanted[packageOf(name)] = true
	}
	for pkg := range wanted {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if pkg == "main" {
			err = p.readMain(ctx, dir, m, callers)
		} else if from := m.dirOf(pkg); from != "" {
			err = p.readPackage(pkg, from)
		}
		if err != nil {
			return nil, err
		}
	}
	p.unread = p.notInSource
	return p, p.checkOwn(edges)
}

// notInSource says why a source cannot tell of a call.
func (p *Program) notInSource(e Edge) string {
	caller, callee := e.Caller.Name, packageOf(e.Callee.Name)
	switch pkg := packageOf(caller); {
	case !p.packages[pkg]:
		return "its package is not there"
	case (callee == "" || isRuntime(callee)) && !isRuntime(pkg):
		return "the compiler adds it"
	case strings.Contains(caller, "-range") || strings.Contains(caller, ".deferwrap") || strings.Contains(caller, ".gowrap"):
		return "the compiler made its caller"
	}
	if f := p.functions[plainName(caller)]; f == nil && strings.Contains(caller, ".func") {
		return "its caller is a closure of an inlined function" // which the compiler made for the place
	}
	return ""
}

func isRuntime(pkg string) bool {
	return pkg == "runtime" || strings.HasPrefix(pkg, "runtime/internal/") || strings.HasPrefix(pkg, "internal/runtime/") ||
		strings.HasPrefix(pkg, "type:") || strings.HasPrefix(pkg, "go:")
}

// readMain reads the main package of a directory; below a module, the one that has most of the profile's functions.
func (p *Program) readMain(ctx context.Context, dir string, m *module, callers map[string]bool) error {
	var best *Program
	most := 0
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.IsDir():
			return nil
		case at != dir && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "vendor" ||
			d.Name() == "testdata" || at != m.dir && isFile(filepath.Join(at, "go.mod"))):
			return filepath.SkipDir
		}
		one := &Program{functions: make(map[string]*function), packages: make(map[string]bool)}
		if err := one.readPackage("main", at); err != nil {
			return err
		}
		n := 0
		for name := range one.functions {
			if callers[name] {
				n++
			}
		}
		if n > most {
			best, most = one, n
		}
		return nil
	})
	if err == nil && best != nil {
		p.packages["main"] = true
		for name, f := range best.functions {
			p.functions[name] = f
		}
	}
	return err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readPackage reads the files of a directory that this machine would build, if they are of the package.
func (p *Program) readPackage(pkg, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	var files []*ast.File
	set := token.NewFileSet()
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := readFile(set, filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		if f != nil && (f.Name.Name == "main") == (pkg == "main") && f.Name.Name != "documentation" {
			files = append(files, f)
		}
	}
	if len(files) > 0 {
		p.packages[pkg] = true
		newReader(p, set, pkg, files).read(files)
	}
	return nil
}

// readFile parses a file, nil if this machine would not build it.
func readFile(set *token.FileSet, path string) (*ast.File, error) {
	text, err := readSource(path)
	if err != nil {
		return nil, err
	}
	here := build.Default
	here.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	here.CgoEnabled = true
	if match, err := here.MatchFile(filepath.Dir(path), filepath.Base(path)); err != nil || !match {
		return nil, err
	}
	return parser.ParseFile(set, path, text, parser.SkipObjectResolution)
}

// sourceReader reads the functions of a package.
type sourceReader struct {
	program *Program
	set     *token.FileSet
	pkg     string          // as in names of symbols
	types   map[string]bool // declared in the package: T(x) is a conversion
	funcs   map[string]bool
	fields  map[string]bool // of structs: they may hold functions
}

func newReader(p *Program, set *token.FileSet, pkg string, files []*ast.File) *sourceReader {
	r := &sourceReader{p, set, symbolPath(pkg), make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				r.types[n.Name.Name] = true
			case *ast.FuncDecl:
				if n.Recv == nil {
					r.funcs[n.Name.Name] = true
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					for _, name := range field.Names {
						r.fields[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return r
}

// symbolPath writes a package's path as symbols have it: without dots in the last element (cmd/internal/objabi).
func symbolPath(pkg string) string {
	slash := strings.LastIndexByte(pkg, '/') + 1
	return pkg[:slash] + strings.ReplaceAll(pkg[slash:], ".", "%2e")
}

func (r *sourceReader) read(files []*ast.File) {
	closures, inits := 0, 0
	for _, f := range files {
		imports := importsOf(f)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := r.nameOf(d)
				if d.Name.Name == "init" && d.Recv == nil {
					name = fmt.Sprintf("%s.init.%d", r.pkg, inits)
					inits++
				}
				if d.Body != nil {
					r.body(name, d.Pos(), d.Body, imports, paramsOf(d.Type, d.Recv), false)
				}
			case *ast.GenDecl:
				ast.Inspect(d, func(n ast.Node) bool {
					if lit, ok := n.(*ast.FuncLit); ok {
						closures++
						for _, outer := range []string{"init", "glob."} {
							r.body(fmt.Sprintf("%s.%s.func%d", r.pkg, outer, closures), lit.Pos(), lit.Body, imports, paramsOf(lit.Type, nil), true)
						}
						return false
					}
					return true
				})
			}
		}
	}
}

// nameOf returns the name of a function's symbol.
func (r *sourceReader) nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		if d.Type.TypeParams != nil {
			return r.pkg + "." + d.Name.Name + "[...]"
		}
		return r.pkg + "." + d.Name.Name
	}
	of, pointer := d.Recv.List[0].Type, false
	if star, ok := of.(*ast.StarExpr); ok {
		of, pointer = star.X, true
	}
	name := ""
	switch t := of.(type) {
	case *ast.Ident:
		name = t.Name
	case *ast.IndexExpr:
		name = identName(t.X) + "[...]"
	case *ast.IndexListExpr:
		name = identName(t.X) + "[...]"
	}
	if pointer {
		name = "(*" + name + ")"
	}
	return r.pkg + "." + name + "." + d.Name.Name
}

func identName(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// importsOf returns the paths of packages by the names that a file has for them.
func importsOf(f *ast.File) map[string]string {
	imports := make(map[string]string)
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if spec.Name != nil {
			imports[spec.Name.Name] = path
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if strings.HasPrefix(name, "v") && strings.Contains(path, "/") {
			if _, err := strconv.Atoi(name[1:]); err == nil {
				before := path[:strings.LastIndexByte(path, '/')]
				name = before[strings.LastIndexByte(before, '/')+1:]
			}
		}
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "go-"), ".")
		imports[name] = path
	}
	return imports
}

// paramsOf returns the names of parameters: those that are called are function values.
func paramsOf(t *ast.FuncType, recv *ast.FieldList) map[string]bool {
	names := make(map[string]bool)
	for _, list := range []*ast.FieldList{recv, t.Params, t.Results} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			for _, name := range field.Names {
				names[name.Name] = true
			}
		}
	}
	return names
}

// bodyReader reads the calls of one function.
type bodyReader struct {
	*sourceReader
	name     string // of the function
	first    int    // its first line
	imports  map[string]string
	locals   map[string]bool // names of variables, of functions around it, too
	inner    bool            // the function is a closure
	closures int
	exits    []int // lines where deferred calls are done
	deferred []site
}

// body reads a function.
func (r *sourceReader) body(name string, at token.Pos, body *ast.BlockStmt, imports map[string]string, locals map[string]bool, inner bool) {
	b := &bodyReader{
		sourceReader: r, name: plainName(name), first: r.line(at), imports: imports, locals: locals, inner: inner,
		exits: []int{r.line(body.Rbrace)},
	}
	r.program.function(b.name)
	ast.Inspect(body, b.declares)
	ast.Inspect(body, b.visit)
	for _, c := range b.deferred {
		for _, line := range b.exits {
			c.offset = uint32(line - b.first)
			r.program.add(b.name, c)
		}
	}
}

func (r *sourceReader) line(at token.Pos) int { return r.set.Position(at).Line }

// declares notes the variables of a function.
func (b *bodyReader) declares(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			if n.Tok == token.DEFINE {
				b.locals[identName(e)] = true
			}
		}
	case *ast.RangeStmt:
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if e != nil && n.Tok == token.DEFINE {
				b.locals[identName(e)] = true
			}
		}
	case *ast.ValueSpec:
		for _, name := range n.Names {
			b.locals[name.Name] = true
		}
	}
	return true
}

func (b *bodyReader) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		b.closure(n)
		return false
	case *ast.ReturnStmt:
		b.exits = append(b.exits, b.line(n.Pos()))
	case *ast.DeferStmt:
		b.deferred = append(b.deferred, b.calls(n.Call)...)
	case *ast.RangeStmt:
		if _, isCall := n.X.(*ast.CallExpr); isCall { // of a function that returns one to range over, perhaps
			b.add(site{uint32(b.line(n.Pos()) - b.first), "", anything})
		}
	case *ast.CallExpr:
		for _, c := range b.calls(n) {
			b.add(c)
		}
	}
	return true
}

func (b *bodyReader) add(c site) { b.program.add(b.name, c) }

// closure reads a function in the function.
func (b *bodyReader) closure(lit *ast.FuncLit) {
	b.closures++
	locals := paramsOf(lit.Type, nil)
	for name := range b.locals {
		locals[name] = true
	}
	b.body(b.closureName(b.closures), lit.Pos(), lit.Body, b.imports, locals, true)
}

// closureName returns the name that the compiler gives the n-th closure (cmd/compile/internal/ir.closureName, Go 1.26).
func (b *bodyReader) closureName(n int) string {
	if b.inner {
		return fmt.Sprintf("%s.%d", b.name, n)
	}
	return fmt.Sprintf("%s.func%d", b.name, n)
}

// calls returns what a call can reach.
func (b *bodyReader) calls(n *ast.CallExpr) []site {
	at := uint32(b.line(n.Lparen) - b.first)
	fun := ast.Unparen(n.Fun)
	switch generic := fun.(type) {
	case *ast.IndexExpr:
		fun = generic.X
	case *ast.IndexListExpr:
		fun = generic.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		return b.identCalls(at, fun.Name)
	case *ast.SelectorExpr:
		return b.selectorCalls(at, fun)
	case *ast.FuncLit:
		return []site{{at, b.closureName(b.closures + 1), named}}
	case *ast.ArrayType, *ast.InterfaceType, *ast.MapType, *ast.ChanType, *ast.FuncType, *ast.StarExpr:
		return nil // conversions
	}
	return []site{{at, "", anything}}
}

// identCalls returns what NAME(…) can reach.
func (b *bodyReader) identCalls(at uint32, name string) []site {
	switch {
	case b.locals[name]:
		return []site{{at, "", anything}}
	case b.funcs[name]:
		return []site{{at, b.pkg + "." + name, named}, {at, b.pkg + "." + name + "[...]", named}}
	case b.types[name] || isPredeclared(name):
		return nil
	}
	return []site{{at, "", anything}} // a variable of the package, or a name of a dot import
}

// selectorCalls returns what X.NAME(…) can reach.
func (b *bodyReader) selectorCalls(at uint32, fun *ast.SelectorExpr) []site {
	name := fun.Sel.Name
	if path, ok := b.imports[identName(fun.X)]; ok && !b.locals[identName(fun.X)] {
		of := symbolPath(path) + "." + name
		return []site{{at, of, named}, {at, of + "[...]", named}, {at, name, byLast}} // a package's name is not always its path's end
	}
	calls := []site{{at, name, byLast}}
	if b.fields[name] {
		calls = append(calls, site{at, "", anything})
	}
	return calls
}

// isPredeclared reports whether a name is of the language: a conversion, or a function that the compiler makes.
func isPredeclared(name string) bool {
	switch name {
	case "append", "cap", "clear", "close", "complex", "copy", "delete", "imag", "len", "make", "max", "min", "new", "panic",
		"print", "println", "real", "recover", "any", "bool", "byte", "comparable", "complex64", "complex128", "error", "float32",
		"float64", "int", "int8", "int16", "int32", "int64", "rune", "string", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr":
		return true
	}
	return false
}
