package manager

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestDumpHasNames: the life of a table is told with the names of methods.
func TestDumpHasNames(t *testing.T) {
	t.Parallel()
	var dump bytes.Buffer
	names := ccmap.NewNames()
	v := newValues(ValueOptions{Dump: &dump}, names, quiet)
	for _, target := range []string{"main.a", "main.b", "main.c"} {
		v.hit(hitOf(stack(names, target, "main.site", "main.caller")))
		v.sample(stack(names, target, "main.site"))
	}
	for _, want := range []string{
		"burst table created kind=call site=main.site:2 ",
		"burst table added value=main.c kind=call site=main.site:2<main.caller:3 ",
		"sampled table created ",
	} {
		if !strings.Contains(dump.String(), want) {
			t.Errorf("dump lacks %q:\n%s", want, &dump)
		}
	}
}
