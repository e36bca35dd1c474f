package manager

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestDumpHasNames: the life of a table is told with the names of methods, and the
// lines of calls as far as they are known.
func TestDumpHasNames(t *testing.T) {
	t.Parallel()
	var dump bytes.Buffer
	names := ccmap.NewNames()
	names.Intern(ccmap.Method{Name: "main.site", File: "main.go", StartLine: 10})
	v := newValues(ValueOptions{Dump: &dump}, names, quiet)
	for _, target := range []string{"main.a", "main.b", "main.c"} {
		v.hit(hitOf(stack(names, target, "main.site", "main.caller")))
	}
	for _, want := range []string{
		"table created site=main.site:12 ",
		"table added value=main.c site=main.site:12<main.caller+3 ",
	} {
		if !strings.Contains(dump.String(), want) {
			t.Errorf("dump lacks %q:\n%s", want, &dump)
		}
	}
}
