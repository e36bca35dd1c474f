// Package compiler makes command lines of the Go compiler, a foreign program
// that campaigns sample.
package compiler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Command returns a command line that calls the compiler of the installed toolchain alone
// on a package of the standard distribution, as go build does. It writes a file with the
// compiler's input about imports.
func Command(compiled, imports string) ([]string, error) {
	if err := writeImports(compiled, imports); err != nil {
		return nil, err
	}
	files, err := list("{{range .GoFiles}}{{$.Dir}}/{{.}}\n{{end}}", compiled)
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

// writeImports tells the compiler where the imported packages are.
func writeImports(compiled, path string) error {
	packages, err1 := list("{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}", "-export", "-deps", compiled)
	vendored, err2 := list("{{range $k, $v := .ImportMap}}importmap {{$k}}={{$v}}\n{{end}}", compiled)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(packages+vendored), 0o644)
}

func list(format string, args ...string) (string, error) {
	out, err := exec.Command("go", append([]string{"list", "-f", format}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
