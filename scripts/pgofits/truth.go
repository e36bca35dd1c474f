package main

import (
	"fmt"
	"go/ast"
	gobuild "go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
)

// truth tells what became of calls from the sources of two trees.
type truth struct {
	old, now map[string]*declared // by name of the symbol, without type arguments
	noAdded  bool                 // it tells of no call that the compiler adds
	lines    map[[2]*declared][]int
}

// declared is a function in a source: a declaration, or a closure within one.
type declared struct {
	text  []string // of the whole declaration, a line each, without the room around it
	first int      // the function's first line in it, from 0
	outer *declared
}

func newTruth(old, now, module, cmd string) (*truth, error) {
	t := &truth{lines: make(map[[2]*declared][]int)}
	var err error
	if t.old, err = declarations(old, module, cmd); err != nil {
		return nil, err
	}
	t.now, err = declarations(now, module, cmd)
	return t, err
}

// declarations reads the functions of a tree that are built for this machine. Of main packages it reads the one in
// the folder cmd.
func declarations(tree, module, cmd string) (map[string]*declared, error) {
	all := make(map[string]*declared)
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "scripts" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		folder := filepath.Dir(path)
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		if built, err := gobuild.Default.MatchFile(folder, d.Name()); err != nil || !built {
			return nil // for another machine, or for another purpose
		}
		rel, err := filepath.Rel(tree, folder)
		if err != nil {
			return err
		}
		return readDeclarations(all, path, filepath.Join(module, rel), folder == filepath.Join(tree, cmd))
	})
	return all, err
}

func readDeclarations(all map[string]*declared, path, pkg string, isCmd bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil // a file for another purpose
	}
	if f.Name.Name == "main" {
		if !isCmd {
			return nil
		}
		pkg = "main"
	}
	lines := strings.Split(string(text), "\n")
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		first, last := set.Position(fn.Pos()).Line, set.Position(fn.End()).Line
		outer := &declared{}
		for _, line := range lines[first-1 : last] {
			outer.text = append(outer.text, strings.TrimSpace(line))
		}
		name := pkg + "." + receiverOf(fn) + fn.Name.Name
		if _, twice := all[name]; twice {
			name += "·twice"
		}
		all[name] = outer
		closures(all, set, name, fn.Body, outer, first, false)
	}
	return nil
}

// receiverOf returns the receiver as names of symbols have it.
func receiverOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of, format := fn.Recv.List[0].Type, "%s."
	if star, ok := of.(*ast.StarExpr); ok {
		of, format = star.X, "(*%s)."
	}
	switch t := of.(type) {
	case *ast.IndexExpr:
		of = t.X
	case *ast.IndexListExpr:
		of = t.X
	}
	return fmt.Sprintf(format, of.(*ast.Ident).Name)
}

// closures adds the functions in a function.
func closures(all map[string]*declared, set *token.FileSet, name string, in ast.Node, outer *declared, first int, inner bool) {
	n := 0
	ast.Inspect(in, func(node ast.Node) bool {
		lit, ok := node.(*ast.FuncLit)
		if !ok {
			return true
		}
		n++
		closure := fmt.Sprintf("%s.func%d", name, n)
		if inner {
			closure = fmt.Sprintf("%s.%d", name, n)
		}
		all[closure] = &declared{text: outer.text, first: set.Position(lit.Pos()).Line - first, outer: outer}
		closures(all, set, closure, lit.Body, outer, first, true)
		return false
	})
}

var typeArguments = regexp.MustCompile(`\[.*\]`)

// of says what became of a call, and its new offset if it moved; ccmap.NoOffset: that is not known.
func (t *truth) of(e gopgo.Edge) (group, uint32) {
	if t.noAdded && isAdded(e.Callee.Name) {
		return untold, 0
	}
	name := typeArguments.ReplaceAllString(e.Caller.Name, "")
	was := t.old[name]
	if was == nil {
		return untold, 0
	}
	is := t.now[name]
	if is == nil || (was.outer == nil) != (is.outer == nil) {
		if t.sameElsewhere(was, name) {
			return renamed, 0
		}
		return gone, 0
	}
	mapped := t.mapping(was, is)
	at := was.first + int(int32(e.Offset))
	if at < 0 || at >= len(was.text) {
		return untold, 0
	}
	if was.outer != nil && mapped[was.first] != is.first { // another closure has its number, perhaps
		return untold, 0
	}
	if line := mapped[at]; line >= 0 {
		if offset := line - is.first; offset != int(int32(e.Offset)) {
			return moved, uint32(offset)
		}
		return fits, e.Offset
	}
	return t.changedLine(e, is)
}

// isAdded reports whether a callee is of the runtime: the compiler adds most of its calls, and a source has no line of them.
func isAdded(callee string) bool {
	return strings.HasPrefix(callee, "runtime.") || strings.HasPrefix(callee, "internal/runtime/") || !strings.Contains(callee, ".")
}

// changed reports whether the text of the caller is another one, or gone.
func (t *truth) changed(e gopgo.Edge) bool {
	name := typeArguments.ReplaceAllString(e.Caller.Name, "")
	was, is := t.old[name], t.now[name]
	return was == nil || is == nil || strings.Join(was.text, "\n") != strings.Join(is.text, "\n")
}

// changedLine looks for the callee's name where the line of a call has changed.
func (t *truth) changedLine(e gopgo.Edge, is *declared) (group, uint32) {
	callee := typeArguments.ReplaceAllString(e.Callee.Name, "")
	last := callee[strings.LastIndexByte(callee, '.')+1:]
	if isAdded(callee) || strings.HasPrefix(last, "func") {
		return untold, 0
	}
	calls := regexp.MustCompile(`\b` + regexp.QuoteMeta(last) + `\b(\[[^\]]*\])?\(`)
	if at := is.first + int(int32(e.Offset)); at >= 0 && at < len(is.text) && calls.MatchString(is.text[at]) {
		return fits, e.Offset
	}
	for i, line := range is.text {
		if i > 0 && calls.MatchString(line) {
			return moved, ccmap.NoOffset
		}
	}
	return gone, 0
}

// sameElsewhere reports whether a function of another name has the same text.
func (t *truth) sameElsewhere(was *declared, name string) bool {
	if was.outer != nil {
		return false
	}
	for other, is := range t.now {
		if is.outer == nil && t.old[other] == nil && len(is.text) == len(was.text) && strings.Join(is.text[1:], "\n") == strings.Join(was.text[1:], "\n") {
			return true
		}
	}
	return false
}

// mapping returns for each line of a declaration its line in another one, -1 if it has none: the longest common
// subsequence.
func (t *truth) mapping(a, b *declared) []int {
	key := [2]*declared{a, b}
	if known := t.lines[key]; known != nil {
		return known
	}
	n, m := len(a.text), len(b.text)
	longest := make([][]int, n+1)
	for i := range longest {
		longest[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a.text[i] == b.text[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	to := make([]int, n)
	for i, j := 0, 0; i < n; i++ {
		to[i] = -1
		for j < m && a.text[i] != b.text[j] && longest[i][j] == longest[i][j+1] {
			j++
		}
		if j < m && a.text[i] == b.text[j] {
			to[i] = j
			j++
		}
	}
	t.lines[key] = to
	return to
}
