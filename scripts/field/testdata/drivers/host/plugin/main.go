// Command plugin is loaded by host and converts a document with goldmark.
package main

import (
	"bytes"
	"log"
	"strings"

	"github.com/yuin/goldmark"
)

func main() {}

var text = []byte(strings.Repeat("# Title\n\nA *paragraph* with `code` and a [link](https://example.org).\n\n- one\n- two\n\n> quoted\n\n", 100))

// Work converts the document once.
func Work() {
	var page bytes.Buffer
	if err := goldmark.Convert(text, &page); err != nil {
		log.Fatal(err)
	}
}
