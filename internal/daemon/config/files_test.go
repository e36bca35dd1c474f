package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/safepath"
)

// written makes files of a configuration, by their paths below a directory of the test, and returns the first one's.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "c.toml")
}

// aTarget returns the text of a target.
func aTarget(name string) string {
	return "[[target]]\nname = \"" + name + "\"\nmatch = { exe = \"/srv/" + name + "\" }\n"
}

// TestParts: targets of FILE.d come after those of FILE, by the names of the files, with the defaults of FILE. Other
// files there are left.
func TestParts(t *testing.T) {
	t.Parallel()
	c, err := Load(written(t, map[string]string{
		"c.toml": "[defaults]\ninterval = \"7ms\"\n" + aTarget("first"), "c.toml.d/20-b.toml": aTarget("b"),
		"c.toml.d/10-z.toml": aTarget("z") + aTarget("y"), "c.toml.d/.hidden.toml": "nonsense", "c.toml.d/README": "nonsense",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range c.Targets {
		got = append(got, one.Name+" "+one.Interval.String())
	}
	if want := "first 7ms, z 7ms, y 7ms, b 7ms"; strings.Join(got, ", ") != want {
		t.Errorf("targets %v, want %s", got, want)
	}
}

// TestPartsRefused: what is wrong in any file refuses all of them, and the error names the files.
func TestPartsRefused(t *testing.T) {
	t.Parallel()
	const two, host = "c.toml.d/a.toml", "[[target]]\nname = \"%\"\nmatch.host = true\n"
	for name, test := range map[string]struct {
		first, part string
		want        []string
	}{
		"a name twice":         {aTarget("web"), aTarget("new") + aTarget("web"), []string{two + ": line 5", `target[1].name: "web" is the name of target[0] of `, "c.toml, too"}},
		"the whole host twice": {strings.Replace(host, "%", "a", 1), strings.Replace(host, "%", "b", 1), []string{two, "c.toml is the whole host already"}},
		"a budget":             {"", "[budget]\ncpu = 2\n", []string{two + ": line 1", "belongs into ", "c.toml: a file of c.toml.d has [[target]] alone"}},
		"an unknown key":       {"", "colour = 1\n", []string{two, "unknown key"}},
		"errors in both":       {"x = 1\n", "y = 2\n", []string{"c.toml: line 1, column 1: x", two + ": line 1, column 1: y"}},
		"no TOML in both":      {"= 1\n", "= 2\n", []string{"c.toml: line 1", two + ": line 1"}},
		"too many targets":     {"[budget]\ntargets = 1\n" + aTarget("one"), aTarget("other"), []string{"c.toml: line 2", "1 is less than the file has [[target]]: 2"}},
		"too long":             {strings.Repeat("#", MaxBytes/2), strings.Repeat("#", MaxBytes/2+1), []string{"longer than 1024 KiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(written(t, map[string]string{"c.toml": test.first, two: test.part}))
			if err == nil {
				t.Fatalf("%+v", c)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
		})
	}
}

// TestPartsThatCannotBeListed: a file in the place of the directory is an error, and not a directory without files: a
// reload would drop its targets.
func TestPartsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	if c, err := Load(written(t, map[string]string{"c.toml": "", "c.toml.d": aTarget("a")})); err == nil {
		t.Errorf("%+v", c)
	}
}

// TestPartsOfOthers: a file of FILE.d, or the directory, that others can change is refused.
func TestPartsOfOthers(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"c.toml.d", "c.toml.d/a.toml"} {
		path := written(t, map[string]string{"c.toml": "", "c.toml.d/a.toml": aTarget("a")})
		if err := os.Chmod(filepath.Join(filepath.Dir(path), open), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); !errors.Is(err, safepath.ErrOthers) {
			t.Errorf("%s: %v", open, err)
		}
	}
}
