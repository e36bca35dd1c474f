// Command markdown converts a document with goldmark, over and over.
package main

import (
	"bytes"
	"fmt"
	"log"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

func main() {
	text := document(50)
	converter := goldmark.New(goldmark.WithExtensions(extension.GFM))
	serve(func() {
		var page bytes.Buffer
		if err := converter.Convert(text, &page); err != nil {
			log.Fatal(err)
		}
	})
}

// document makes a text of sections sections, with all kinds of blocks.
func document(sections int) []byte {
	var b strings.Builder
	for i := 0; i < sections; i++ {
		fmt.Fprintf(&b, "## Section %d\n\nA *paragraph* with **strong** words, `code`, a [link](https://example.org/%d)\n", i, i)
		fmt.Fprintf(&b, "and ~~more~~ of it; see https://example.org/?q=%d &amp; others.\n\n", i)
		b.WriteString("| left | right |\n| :--- | ---: |\n| 1 | 2 |\n| `3` | *4* |\n\n")
		b.WriteString("- one\n  - nested\n- [x] done\n\n1. first\n2. second\n\n> quoted\n> text\n\n```go\nfunc main() {}\n```\n\n")
	}
	return []byte(b.String())
}
