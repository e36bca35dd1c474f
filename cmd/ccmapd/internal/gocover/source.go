package gocover

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
)

// Source is the outline of a source file: the positions in its functions. It never
// changes, and any goroutine may use it.
type Source struct {
	functions map[Position]*outline // by the beginning of their first block
	starts    map[Position]bool     // of all possible blocks
}

// outline is a function of a source file.
type outline struct {
	name       string // as in a [Function]; empty if the source does not tell
	receiver   string
	line       uint32 // of the declaration
	start, end Position
	choices    []choice
	literals   []*outline // directly in it, in order
}

// choice is an if, a switch or a select.
type choice struct {
	isIf       bool
	start, end Position // of the keyword, and after the body
	arms       []arm    // of an if: the body, then the else
	open       bool     // a switch that may choose no arm
}

// arm is the code of one choice.
type arm struct {
	start Position // of its first block
	line  uint32   // of its keyword
	from  Position // of the fallthrough into it; zero: none
}

// SourceMemory returns how many bytes [ParseSource] takes for a text, at most.
func SourceMemory(text []byte) int64 {
	const each = 100 // bytes in the syntax tree of Go 1.26, while its lists grow: "a;" takes 75 a token
	file := token.NewFileSet().AddFile("", 1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	count := int64(1)
	for _, kind, _ := s.Scan(); kind != token.EOF; _, kind, _ = s.Scan() {
		count++
	}
	return count * each
}

// ParseSource parses a Go file.
func ParseSource(text []byte) (*Source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse source: %w", err)
	}
	r := sourceReader{fset, text, &Source{make(map[Position]*outline), make(map[Position]bool)}}
	for _, d := range file.Decls {
		r.declaration(d)
	}
	return r.source, nil
}

type sourceReader struct {
	fset   *token.FileSet
	text   []byte
	source *Source
}

// declaration outlines a function, or the literals in a declaration of variables.
func (r *sourceReader) declaration(d ast.Decl) {
	f, ok := d.(*ast.FuncDecl)
	switch {
	case !ok:
		ast.Inspect(d, func(n ast.Node) bool {
			literal, ok := n.(*ast.FuncLit)
			if ok {
				r.source.functions[r.bodyStart(literal.Body)] = r.outline(literal, literal.Body)
			}
			return !ok
		})
	case f.Body != nil:
		o := r.outline(f, f.Body)
		o.receiver, o.name = declaredName(f)
		r.source.functions[r.bodyStart(f.Body)] = o
	}
}

func (r *sourceReader) outline(f ast.Node, body *ast.BlockStmt) *outline {
	o := &outline{line: r.at(f.Pos()).Line, start: r.at(body.Lbrace), end: r.at(body.End())}
	ast.Inspect(body, func(n ast.Node) bool { return r.node(o, n) })
	return o
}

// node adds a node of a function's body to the outline, and reports whether the nodes
// below belong to the function, too.
func (r *sourceReader) node(o *outline, n ast.Node) bool {
	if stmt, ok := n.(ast.Stmt); ok {
		r.mayStart(r.at(stmt.Pos()))
	}
	switch n := n.(type) {
	case *ast.FuncLit:
		o.literals = append(o.literals, r.outline(n, n.Body))
		return false
	case *ast.BlockStmt:
		r.mayStart(r.bodyStart(n))
	case *ast.IfStmt:
		o.choices = append(o.choices, r.branch(n))
	case *ast.SwitchStmt:
		o.choices = append(o.choices, r.choice(n, n.Body))
	case *ast.TypeSwitchStmt:
		o.choices = append(o.choices, r.choice(n, n.Body))
	case *ast.SelectStmt:
		o.choices = append(o.choices, r.choice(n, n.Body))
	}
	return true
}

func (r *sourceReader) mayStart(p Position) { r.source.starts[p] = true }

// bodyStart returns the beginning of the first block of a body: its brace, or the
// position after the brace if the body is empty.
func (r *sourceReader) bodyStart(body *ast.BlockStmt) Position {
	if len(body.List) == 0 {
		return r.at(body.Lbrace + 1)
	}
	return r.at(body.Lbrace)
}

// branch outlines an if.
func (r *sourceReader) branch(n *ast.IfStmt) choice {
	c := choice{isIf: true, start: r.at(n.If), end: r.at(n.Body.End())}
	c.arms = append(c.arms, arm{start: r.bodyStart(n.Body)})
	if n.Else != nil {
		start := r.elseStart(n)
		r.mayStart(start)
		c.arms = append(c.arms, arm{start: start})
	}
	return c
}

// elseStart returns the beginning of the block of an else: after the keyword, both
// before a brace and before another if. An empty block begins a byte later.
func (r *sourceReader) elseStart(n *ast.IfStmt) Position {
	p := r.afterElse(n.Body.End())
	if body, ok := n.Else.(*ast.BlockStmt); ok && len(body.List) == 0 {
		p++
	}
	return r.at(p)
}

// afterElse returns the end of the else that is the next token after from. Comments may
// come before it.
func (r *sourceReader) afterElse(from token.Pos) token.Pos {
	rest := r.text[r.fset.PositionFor(from, false).Offset:]
	file := token.NewFileSet().AddFile("", 1, len(rest))
	var s scanner.Scanner
	s.Init(file, rest, nil, 0)
	at, _, _ := s.Scan()
	return from + token.Pos(file.Offset(at)+len("else"))
}

// choice outlines a switch or a select.
func (r *sourceReader) choice(n ast.Stmt, body *ast.BlockStmt) choice {
	_, selects := n.(*ast.SelectStmt)
	c := choice{start: r.at(n.Pos()), end: r.at(n.End()), open: !selects}
	from := token.NoPos
	for _, clause := range body.List {
		a := arm{line: r.at(clause.Pos()).Line, from: r.at(from)}
		from = token.NoPos
		switch clause := clause.(type) {
		case *ast.CommClause:
			a.start = r.at(clause.Colon + 1)
		case *ast.CaseClause:
			a.start = r.at(clause.Colon + 1)
			from = fallthroughOf(clause)
			c.open = c.open && clause.List != nil
		}
		r.mayStart(a.start)
		c.arms = append(c.arms, a)
	}
	return c
}

func fallthroughOf(clause *ast.CaseClause) token.Pos {
	if n := len(clause.Body); n > 0 {
		if last, ok := clause.Body[n-1].(*ast.BranchStmt); ok && last.Tok == token.FALLTHROUGH {
			return last.Pos()
		}
	}
	return token.NoPos
}

// at returns a position as cmd/cover writes it: with line directives.
func (r *sourceReader) at(p token.Pos) Position {
	at := r.fset.Position(p)
	return Position{uint32(at.Line), uint32(at.Column)}
}

// declaredName returns the runtime's receiver and name of a declared function, without
// the package. The name is "" for init functions, which are numbered over all files.
func declaredName(f *ast.FuncDecl) (receiver, name string) {
	name = f.Name.Name
	switch {
	case f.Recv != nil && len(f.Recv.List) == 1:
		receiver = receiverName(f.Recv.List[0].Type)
		if strings.HasPrefix(receiver, "*") {
			return receiver, "(" + receiver + ")." + name
		}
		return receiver, receiver + "." + name
	case f.Type.TypeParams != nil:
		return "", name + typeArguments
	case name == "init":
		return "", ""
	}
	return "", name
}

// typeArguments stands for any type arguments in the runtime's names.
const typeArguments = "[...]"

func receiverName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.ParenExpr:
		return receiverName(t.X)
	case *ast.StarExpr:
		return "*" + receiverName(t.X)
	case *ast.IndexExpr:
		return receiverName(t.X) + typeArguments
	case *ast.IndexListExpr:
		return receiverName(t.X) + typeArguments
	case *ast.Ident:
		return t.Name
	}
	return "?" // not valid Go
}
