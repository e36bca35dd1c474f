package docs

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// indexOfReasons matches the index of the pages of the rationale.
var indexOfReasons = regexp.MustCompile(`(?s)<!-- docs, TestRationale: begin -->\n.*<!-- docs, TestRationale: end -->\n`)

// TestRationale holds that RATIONALE.md has a link to each question of the pages below. To write them anew:
// go test ./docs -run TestRationale -update
func TestRationale(t *testing.T) {
	t.Parallel()
	var index strings.Builder
	index.WriteString("<!-- docs, TestRationale: begin -->\n")
	for _, page := range []string{"map", "sampling", "values", "wasm", "store"} {
		text, err := os.ReadFile("rationale/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range headings.FindAllStringSubmatch(string(text), -1) {
			file := "docs/rationale/" + page + ".md"
			if i == 0 {
				fmt.Fprintf(&index, "\n**[%s](%s)**\n\n", strings.TrimPrefix(h[1], "Rationale: "), file)
				continue
			}
			fmt.Fprintf(&index, "- [%s](%s#%s)\n", h[1], file, anchor(h[1]))
		}
	}
	index.WriteString("\n<!-- docs, TestRationale: end -->\n")
	holdRows(t, "../RATIONALE.md", indexOfReasons, index.String())
}
