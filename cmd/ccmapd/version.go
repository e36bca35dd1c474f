package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

const versionLong = `Version prints the versions of ccmapd, of Go and of the modules it was built with,
and which engines there are. Whether an engine is permitted here is found out by
attaching to ccmapd itself; ccmapd doctor says why not, and the cure. Without hardware
breakpoints samples are the same, but nobody knows which of them find an activation
again, and no calls are caught (--hits).

Engine wasm samples the WebAssembly modules that ccmapd itself runs, which is always
permitted, wherever wazero has a compiler.

It also says what confines ccmapd here: the capabilities that sampling keeps, and what
keeps commands that read profiles from executing, connecting, and writing to files that
are not their output.

With --json: version, go, platform, modules [{path, version}], engines [{name,
permitted, reason, breakpoints, inside}], confinement {capabilities, raised,
no_new_privs, seccomp, landlock [version of its interface, 0: not here]}.`

const versionExample = `  ccmapd version
  ccmapd version --json | jq '.engines[] | select(.permitted) | .name'`

func newVersionCmd(env *environment) subcommand {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print versions, and which engines are permitted here",
		Long:    versionLong,
		Example: versionExample,
		Args:    argCount(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := newVersionInfo(env.engines)
			v.Confinement = env.process.Confinement()
			if asJSON {
				return terminal.WriteJSON(env.stdout, v)
			}
			return v.print(env.stdout)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return subcommand{cmd, sampling}
}

type versionInfo struct {
	Version  string       `json:"version"`
	Go       string       `json:"go"`
	Platform string       `json:"platform"`
	Modules  []moduleInfo `json:"modules"`
	Engines  []engineInfo `json:"engines"`

	Confinement privilege.Confinement `json:"confinement"`
}

type moduleInfo struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

type engineInfo struct {
	Name        string `json:"name"`
	Permitted   bool   `json:"permitted"`
	Reason      string `json:"reason,omitempty"` // why not
	Breakpoints bool   `json:"breakpoints"`      // of the hardware: whether it can set any
	Inside      bool   `json:"inside"`           // samples what runs in ccmapd itself
}

// nextRelease is the version that the next tag names. CHANGELOG.md begins with it, and packages have it.
const nextRelease = "0.1.0"

// buildVersion returns the release, and which commit of its development this is, unless it is the release.
func buildVersion() string {
	build, ok := debug.ReadBuildInfo()
	switch {
	case !ok || build.Main.Version == "" || build.Main.Version == "(devel)":
		return nextRelease + "-dev"
	case build.Main.Version == "v"+nextRelease:
		return nextRelease
	}
	return nextRelease + "-dev (" + build.Main.Version + ")"
}

func newVersionInfo(all []engine.Engine) versionInfo {
	v := versionInfo{Version: buildVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			v.Modules = append(v.Modules, moduleInfo{m.Path, m.Version})
		}
	}
	for _, e := range all {
		d := e.Diagnose(context.Background(), os.Getpid(), 0)
		if engine.ForOthers(d.Err) {
			d.Err = nil // it needs no rights but those of its targets
		}
		info := engineInfo{Name: d.Engine, Permitted: d.Err == nil, Breakpoints: d.Watchpoints > 0}
		if d.Err != nil {
			info.Reason = d.Err.Error()
		}
		v.Engines = append(v.Engines, info)
	}
	v.Engines = append(v.Engines, moduleEngine())
	return v
}

// moduleEngine describes the engine that samples modules, after a try.
func moduleEngine() engineInfo {
	info := engineInfo{Name: wasm.SamplingEngine, Permitted: true, Inside: true}
	if err := wasi.Try(); err != nil {
		info.Permitted, info.Reason = false, err.Error()
	}
	return info
}

// state says whether the engine is permitted here, for people.
func (e engineInfo) state() string {
	switch {
	case !e.Permitted:
		return terminal.Reason(e.Reason)
	case e.Inside:
		return "always permitted: 'ccmapd run MODULE.wasm'"
	case !e.Breakpoints:
		return "permitted, without hardware breakpoints: it catches no calls"
	}
	return "permitted, and hardware breakpoints"
}

func (v versionInfo) print(w io.Writer) error {
	fmt.Fprintf(w, "ccmapd %s, %s, %s\n", v.Version, v.Go, v.Platform)
	for _, e := range v.Engines {
		fmt.Fprintf(w, "engine %s: %s\n", e.Name, e.state())
	}
	v.Confinement.Print(w)
	for _, m := range v.Modules {
		fmt.Fprintf(w, "module %s %s\n", m.Path, m.Version)
	}
	return nil
}
