package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named matches the names of tests, fuzz targets and benchmarks in pages.
var named = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)`")

// TestNamedTests holds that each test, fuzz target and benchmark that a page names exists.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	const placeholder = "FuzzReadNAME" // of the page on adding a format
	declared := testsOfAll(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllStringSubmatch(string(text), -1) {
			if !declared[name[1]] && name[1] != placeholder {
				t.Errorf("%s names %s, which no package has", page, name[1])
			}
		}
	}
}

// TestTrustIsHeld holds that each section of trust names a test: all parties but the caller, who
// is trusted with all that they can do.
func TestTrustIsHeld(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, trust, found := strings.Cut(string(text), "\n## Trust\n")
	if !found {
		t.Fatal("SECURITY.md has no sections of trust")
	}
	trust, _, _ = strings.Cut(trust, "\n## ")
	missing := map[string]bool{"socket": true, "loopback": true, "web_config": true, "Another user": true, "configuration": true}
	for _, section := range strings.Split(trust, "\n### ")[1:] {
		party, body, _ := strings.Cut(section, "\n")
		for word := range missing {
			if strings.Contains(party, word) {
				delete(missing, word)
			}
		}
		if _, tests, _ := strings.Cut(body, "\nTests: "); !named.MatchString(tests) && party != "The caller" {
			t.Errorf("SECURITY.md names no test that holds the line of %s", party)
		}
	}
	for word := range missing {
		t.Errorf("SECURITY.md has no section of the party with %q in its name", word)
	}
}

// testsOfAll returns the names of all functions that go test runs, in packages and in testdata.
func testsOfAll(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				all[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
