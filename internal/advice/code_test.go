package advice

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCodes names each code with its exit code and its HTTP status. A code without either fails.
func TestCodes(t *testing.T) {
	t.Parallel()
	want := map[Code]meaning{
		"not-permitted":    {3, http.StatusForbidden},
		"no-target":        {4, http.StatusNotFound},
		"no-method":        {1, http.StatusNotFound},
		"ambiguous-method": {1, http.StatusConflict},
		"usage":            {2, http.StatusBadRequest},
		"command-line":     {2, http.StatusBadRequest},
		"too-large":        {1, http.StatusRequestEntityTooLarge},
		"busy":             {1, http.StatusServiceUnavailable},
		"failed":           {1, http.StatusInternalServerError},
	}
	declared := declaredCodes(t)
	for _, code := range declared {
		if got, ok := meanings[code]; !ok || got.exit == 0 || got.status == 0 {
			t.Errorf("code %s has no exit code or HTTP status: %+v", code, got)
		}
		if got := (meaning{code.ExitCode(), code.Status()}); got != want[code] {
			t.Errorf("code %s has exit code and status %+v, want %+v", code, got, want[code])
		}
	}
	if len(declared) != len(want) || len(meanings) != len(want) {
		t.Errorf("%d codes are declared, %d have a meaning, and %d are named here", len(declared), len(meanings), len(want))
	}
	if other := Code("of-tomorrow"); other.ExitCode() != 1 || other.Status() != http.StatusInternalServerError {
		t.Errorf("an unknown code has exit code %d and status %d", other.ExitCode(), other.Status())
	}
}

// TestCodesOfExit: each code that services tell is one of its exit code, and none of another.
func TestCodesOfExit(t *testing.T) {
	t.Parallel()
	for exit, want := range map[int][]Code{
		0: nil, 1: {"ambiguous-method", "busy", "failed", "no-method", "too-large"}, 2: {"usage"}, 3: {"not-permitted"}, 4: {"no-target"},
	} {
		if got := Codes(exit); !slices.Equal(got, want) {
			t.Errorf("exit code %d: %q, want %q", exit, got, want)
		}
	}
}

// declaredCodes returns the constants of type Code.
func declaredCodes(t *testing.T) (codes []Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Code" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, Code(text))
		}
		return true
	})
	return codes
}

// TestCodesDocumented: the page about the daemon has the exit code and the status of each code that it tells.
func TestCodesDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| code | status | exit code |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for code, m := range meanings {
		found := code == CodeCommandLine
		for row := range strings.SplitSeq(table, "\n") {
			found = found || strings.Contains(row, "`"+string(code)+"`") && strings.Contains(row, strconv.Itoa(m.status)) &&
				strings.HasSuffix(row, fmt.Sprintf("| %d |", m.exit))
		}
		if !found {
			t.Errorf("docs/daemon.md has no row of code %s, status %d and exit code %d", code, m.status, m.exit)
		}
	}
}
