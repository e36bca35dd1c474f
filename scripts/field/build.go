package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// build describes how to make an executable from modules of the module proxy.
type build struct {
	name      string            // of the executable, and of its folder in the work folder
	toolchain string            // toolchain, for example "go1.20.14"; empty: the one in use
	requires  []string          // modules with their versions, "example.org/module@v1.2.3"
	target    string            // package to build; empty: the files below
	files     map[string]string // our sources around foreign packages, by file name
	flags     []string          // of go build
	plugins   []string          // folders of files that are built as plugins, FOLDER.so beside the executable
	env       []string          // in addition to the environment
}

// build makes an executable, unless it exists and was made in the same way.
func (f *field) build(ctx context.Context, b build) (executable string, err error) {
	folder := f.Path("builds", b.name)
	executable = filepath.Join(folder, b.name)
	stamp, made := filepath.Join(folder, "made-as"), fmt.Sprintf("%q\n", []any{b.toolchain, b.requires, b.target, b.files, b.flags, b.plugins, b.env})
	if old, err := os.ReadFile(stamp); err == nil && string(old) == made {
		return executable, nil
	}
	f.Say("building %s", b.name)
	if err := b.write(folder); err != nil {
		return "", fmt.Errorf("build %s: %w", b.name, err)
	}
	target := b.target
	if target == "" {
		target = "."
	}
	args := append(append([]string{"build", "-o", executable}, b.flags...), target)
	if err := campaign.Command(b.command(ctx, folder, args...)); err != nil {
		return "", fmt.Errorf("build %s: %w", b.name, err)
	}
	for _, p := range b.plugins {
		args := append([]string{"build", "-buildmode=plugin", "-o", filepath.Join(folder, p+".so")}, b.flags...)
		if err := campaign.Command(b.command(ctx, folder, append(args, "./"+p)...)); err != nil {
			return "", fmt.Errorf("build %s: %w", b.name, err)
		}
	}
	return executable, os.WriteFile(stamp, []byte(made), 0o644)
}

// command returns a go command that runs with the build's toolchain in its module.
func (b build) command(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if b.toolchain != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+b.toolchain)
	}
	cmd.Env = append(cmd.Env, b.env...)
	return cmd
}

// write makes the module that requires the foreign ones.
func (b build) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var mod strings.Builder
	fmt.Fprintf(&mod, "module example.com/field\n\ngo %s\n", b.language()) // Go 1.19 wants a path with a dot
	for _, r := range b.requires {
		path, version, _ := strings.Cut(r, "@")
		fmt.Fprintf(&mod, "\nrequire %s %s\n", path, version)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(mod.String()), 0o644); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(b.files[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// language returns the version of Go that the module requires: the toolchain's, "1.20"
// for "go1.20.14".
func (b build) language() string {
	if parts := strings.Split(strings.TrimPrefix(b.toolchain, "go"), "."); len(parts) >= 2 {
		return parts[0] + "." + parts[1]
	}
	return "1.26"
}
