package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// metricRows matches the rows of the table of metrics.
var metricRows = regexp.MustCompile("(?m)(^\\| `ccmapd_.*\\n)+")

// TestMetrics holds that daemon.md has a row for each metric, with the help that /metrics prints. To write them anew:
// go test ./docs -run TestMetrics -update
func TestMetrics(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/api/metrics.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	ast.Inspect(file, func(n ast.Node) bool {
		if row := metricOf(n); row != "" {
			rows = append(rows, row)
		}
		return true
	})
	if len(rows) < 20 {
		t.Fatalf("%d metrics: some were not found", len(rows))
	}
	holdRows(t, "daemon.md", metricRows, strings.Join(rows, ""))
}

// metricOf returns the row of a metric that is declared here: by a function of the file, or by options of the library.
func metricOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		texts := textsIn(n.Args)
		switch name := nameOf(n.Fun); {
		case len(texts) < 2:
		case name == "counter" || name == "gauge":
			_, alerted := n.Args[0].(*ast.Ident) // kept, or !kept
			return metricRow("ccmapd_"+texts[0], []string{"target"}, texts[1], !alerted)
		case name == "describe":
			return metricRow("ccmapd_"+texts[0], append([]string{"target"}, texts[2:]...), texts[1], false)
		case name == "NewDesc" && strings.HasPrefix(texts[0], "ccmapd_") && len(n.Args) == 4:
			return metricRow(texts[0], texts[2:], texts[1], false)
		}
	case *ast.CompositeLit:
		if texts := textsIn(n.Elts); len(texts) >= 2 && strings.HasPrefix(texts[0], "ccmapd_") {
			return metricRow(texts[0], nil, texts[1], false)
		}
	}
	return ""
}

// metricRow is the row of a metric.
func metricRow(name string, labels []string, help string, full bool) string {
	with := ""
	if len(labels) > 0 {
		with = "{" + strings.Join(labels, ", ") + "}"
	}
	if full {
		help += " Full."
	}
	return fmt.Sprintf("| `%s%s` | %s |\n", name, with, help)
}

// textsIn returns the texts among expressions, of fields and lists, too.
func textsIn(all []ast.Expr) (texts []string) {
	for _, e := range all {
		switch e := e.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
				texts = append(texts, text)
			}
		case *ast.KeyValueExpr:
			texts = append(texts, textsIn([]ast.Expr{e.Value})...)
		case *ast.CompositeLit:
			if _, list := e.Type.(*ast.ArrayType); list {
				texts = append(texts, textsIn(e.Elts)...)
			}
		}
	}
	return texts
}

// nameOf returns the name of a function that is called.
func nameOf(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
