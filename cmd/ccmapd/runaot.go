package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// In mode 1 the kept profile is the JVM's own: JDK 25's AOT cache has classes, and the profiles of methods (JEP 515). A
// run writes the cache if there is none, and later ones use it.

// checkAOT refuses what is no file for the JVM's cache.
func (f *cachedFlags) checkAOT() error {
	if f.mode.Value == modeCache && (client.IsRemote(f.profile) || store.IsReference(f.profile)) {
		return withHint(usage.Errorf("--mode 1: %s is no file", f.profile),
			"The JVM itself keeps that profile: name a file for its AOT cache, as app.aot. The first run writes it.")
	}
	return nil
}

// aot returns the flags that have the JVM use the cache, or write it when it ends.
func (f *cachedFlags) aot(w io.Writer, args []string) (flags []string, err error) {
	if err := refuseOwn(args, "-XX:AOTCache=", "-XX:AOTCacheOutput=", "-XX:AOTMode=", "-XX:AOTConfiguration=", "-Xshare:"); err != nil {
		return nil, err
	}
	switch n, err := releaseOf(args[0]); {
	case err != nil:
		return nil, err
	case n < firstCache:
		return nil, withHint(fmt.Errorf("JDK %d cannot keep profiles", n), "JDK %d can, in its AOT cache.", firstCache)
	}
	cache, err := filepath.Abs(f.profile)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(cache)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.sayAOT(w, "written: the AOT cache "+f.profile+", when the program ends")
		return []string{"-XX:AOTCacheOutput=" + cache}, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", f.profile)
	}
	f.sayAOT(w, fmt.Sprintf("used: the AOT cache %s, %s", f.profile, figure.Size(info.Size())))
	return []string{"-XX:AOTCache=" + cache}, nil
}

func (f *cachedFlags) sayAOT(w io.Writer, text string) {
	if f.logs(logUse) {
		fmt.Fprintln(w, "cached: "+terminal.Printable(text))
	}
}

// refuseOwn returns an error if a JVM's arguments have one of these flags.
func refuseOwn(args []string, flags ...string) error {
	for _, a := range args[1:] {
		for _, own := range flags {
			if strings.HasPrefix(a, own) {
				return fmt.Errorf("it has %s… of its own", own)
			}
		}
	}
	return nil
}

var javaVersion = regexp.MustCompile(`(?m)^JAVA_VERSION="([0-9]{1,4})["._+-]`)

// releaseOf returns the release of the JDK that a launcher is of. The launcher does not run: the JDK has a file that
// says so.
func releaseOf(launcher string) (int, error) {
	found, err := exec.LookPath(launcher)
	if err == nil {
		found, err = filepath.EvalSymlinks(found)
	}
	if err != nil {
		return 0, err
	}
	file := filepath.Join(filepath.Dir(found), "../release")
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("find the JDK's release: %w", err)
	}
	version := javaVersion.FindSubmatch(text)
	if version == nil {
		return 0, fmt.Errorf("find the JDK's release: %s has no JAVA_VERSION", file)
	}
	return strconv.Atoi(string(version[1]))
}
