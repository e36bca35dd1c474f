package browser

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestProgress: a page is there while its profile is still being read, says so, and then shows it.
func TestProgress(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	written := make(chan error, 1)
	go func() {
		_, err := to.WriteString(strings.Repeat("main;serve;read 1\n", 20_000)) // more than is looked at to tell the format
		written <- err
	}()
	tb := visit(t, startUIOn(t, from, nil, "-"))
	tb.wait(`document.querySelector("main progress") && document.querySelector("main [role=status]").textContent.startsWith("Reading ")`)
	if name := eval[string](tb, `document.querySelector("main progress").getAttribute("aria-label")`); name == "" {
		t.Error("the progress has no name")
	}
	if state := eval[string](tb, "document.body.dataset.state"); state != "loading" {
		t.Errorf("the page is %s", state)
	}
	if err := errors.Join(<-written, to.Close()); err != nil {
		t.Fatal(err)
	}
	tb.wait(`document.body.dataset.state === "shown" && document.querySelector(".tree").textContent.includes("serve")`)
}
