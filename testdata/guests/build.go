package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Go builds testdata/guests/go/NAME for wasip1 by the installed Go and returns the
// path of the module. Go's linker writes names, but no DWARF for WebAssembly.
func Go(ctx context.Context, name string) (path string, err error) {
	return create("go-"+name, func(path string) error {
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./go/"+name)
		command.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		return run(command)
	})
}

// C builds testdata/guests/c/NAME.c by Debian's clang, lld and wasi-libc (14.0 and
// 0.0~git20220510) and returns the path of the module: with DWARF and names, or
// with neither.
func C(ctx context.Context, name string, debug bool) (path string, err error) {
	made, flag := "c-"+name, "-Wl,--strip-all"
	if debug {
		made, flag = made+"-debug", "-g"
	}
	return create(made, func(path string) error {
		return run(exec.CommandContext(ctx, "clang", "--target=wasm32-wasi", "-O2", "-Wall", "-Werror", flag,
			"-fdebug-prefix-map="+sources()+"=.", "-o", path, filepath.Join("c", name+".c")))
	})
}

// run runs a command of a toolchain in the folder of this package.
func run(command *exec.Cmd) error {
	command.Dir = sources()
	output, err := command.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("run %s: %w: %w", command.Args[0], ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w\n%s", command, err, output)
	}
	return nil
}

// sources returns the folder of this package's source.
func sources() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		panic("guests: this program was built without the paths of its sources (-trimpath)")
	}
	return filepath.Dir(file)
}
