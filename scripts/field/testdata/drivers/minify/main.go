// Command minify shortens a page with its style and its script, over and over.
package main

import (
	"bytes"
	"fmt"
	"log"
	"strings"

	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/css"
	"github.com/tdewolff/minify/v2/html"
	"github.com/tdewolff/minify/v2/js"
)

func main() {
	text := page(50)
	m := minify.New()
	m.AddFunc("text/css", css.Minify)
	m.AddFunc("text/html", html.Minify)
	m.AddFunc("application/javascript", js.Minify)
	serve(func() {
		var short bytes.Buffer
		if err := m.Minify("text/html", &short, bytes.NewReader(text)); err != nil {
			log.Fatal(err)
		}
	})
}

// page makes a page of sections sections, each with rules and a function of its own.
func page(sections int) []byte {
	var style, script, body strings.Builder
	for i := 0; i < sections; i++ {
		fmt.Fprintf(&style, "#s%d > p.lead, #s%d a:hover {\n  margin: 0px 0px 0px 0px;\n  color: #ff0000;\n  width: calc(100%% - %dpx);\n}\n", i, i, i)
		fmt.Fprintf(&script, "function show%d(list, wanted) {\n  var found = 0; // so many\n  for (var i = 0; i < list.length; i++) {\n", i)
		fmt.Fprintf(&script, "    if (list[i].id === wanted && !list[i].hidden) { found = found + %d; } else { list[i].hidden = true; }\n  }\n  return found;\n}\n", i)
		fmt.Fprintf(&body, "<section id=\"s%d\">\n  <h2>Section %d</h2>\n  <!-- by the way -->\n  <p class=\"lead\">Some  <em>words</em>   &amp; more.\n", i, i)
		fmt.Fprintf(&body, "  <a href=\"https://example.org/%d\" onclick=\"return show%d(all, 'x');\">here</a></p>\n</section>\n", i, i)
	}
	return []byte("<!doctype html>\n<html><head><title>Page</title><style>" + style.String() + "</style>\n<script>" + script.String() +
		"</script></head>\n<body>\n" + body.String() + "</body></html>\n")
}
