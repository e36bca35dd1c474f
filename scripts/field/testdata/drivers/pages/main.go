// Command pages converts a document with goldmark for every request.
package main

import (
	"net/http"
	"strings"

	"github.com/yuin/goldmark"
)

func main() {
	text := []byte(strings.Repeat("# Title\n\nA *paragraph* with `code` and a [link](https://example.org).\n\n- one\n- two\n\n", 10))
	http.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		if err := goldmark.Convert(text, w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve(nil)
}
