package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs that nobody here wrote, from the module proxy.
const (
	gojqModule   = "github.com/itchyny/gojq/cmd/gojq@v0.12.17"
	fortioModule = "fortio.org/fortio@v1.63.0" // as in cmd/ccmapd/real_test.go
)

// query makes records, groups them by a key and sorts the groups by a sum, over
// and over.
const query = `[range(%d) | [range(50000) | {k: (. * 7919 %% 1000 | tostring), v: .}]
| group_by(.k) | map({key: .[0].k, n: length, s: (map(.v) | add)}) | sort_by(.s) | map(tojson | fromjson) | length] | add`

func gojqCommand(c config, rounds int) ([]string, error) {
	return []string{c.path("gojq"), "-n", fmt.Sprintf(query, rounds)}, nil
}

// compiled is a package that the compiler works on for some seconds.
const compiled = "net/http"

// compileCommand calls the compiler alone, as go build does it.
func compileCommand(c config, _ int) ([]string, error) {
	imports := c.path("importcfg")
	if err := writeImports(imports); err != nil {
		return nil, err
	}
	files, err := goList("{{range .GoFiles}}{{$.Dir}}/{{.}}\n{{end}}", compiled)
	if err != nil {
		return nil, err
	}
	dir, err := exec.Command("go", "env", "GOTOOLDIR").Output()
	if err != nil {
		return nil, fmt.Errorf("find compiler: %w", err)
	}
	command := []string{filepath.Join(string(bytes.TrimSpace(dir)), "compile"), "-p", compiled, "-std", "-complete",
		"-c=2", "-importcfg", imports, "-o", os.DevNull, "-pack"}
	return append(command, strings.Fields(files)...), nil
}

// writeImports tells the compiler where the packages are that are imported.
func writeImports(path string) error {
	packages, err1 := goList("{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}", "-export", "-deps", compiled)
	vendored, err2 := goList("{{range $k, $v := .ImportMap}}importmap {{$k}}={{$v}}\n{{end}}", compiled)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(packages+vendored), 0o644)
}

func goList(format string, args ...string) (string, error) {
	out, err := exec.Command("go", append([]string{"list", "-f", format}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
