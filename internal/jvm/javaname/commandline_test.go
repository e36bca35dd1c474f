package javaname

import (
	"slices"
	"strings"
	"testing"
)

// TestProgram: a command line of java names a class, an archive or a module, after options with and without arguments.
func TestProgram(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		main      string
		classPath []string
	}{
		"java Main": {"Main", nil},
		"java -Xmx1g -cp a.jar:b com.acme.Main -x":            {"com.acme.Main", []string{"a.jar", "b"}},
		"java --class-path=c -ea Main":                        {"Main", []string{"c"}},
		"java -Dx=y -jar /srv/h2.jar -tcp":                    {"/srv/h2.jar", []string{"/srv/h2.jar"}},
		"java --add-opens a/b=ALL -p mods -m m/com.acme.Main": {"m/com.acme.Main", []string{"mods"}},
		"java --module-path=a:b -cp c Main":                   {"Main", []string{"c", "a", "b"}},
		"java @args":                                          {"", nil},
		"java -cp":                                            {"", []string{""}},
		"java":                                                {"", nil},
		"":                                                    {"", nil},
	} {
		main, classPath := Program(strings.Fields(line))
		if main != want.main || !slices.Equal(classPath, want.classPath) {
			t.Errorf("%q: %q, %q", line, main, classPath)
		}
	}
}
