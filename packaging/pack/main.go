// Command pack makes packages, a container image and a list of components of the files that
// packaging/build has made.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// release has the files and facts that all forms of a program share.
type release struct {
	name    string // ccmapd or ccmapd-hub
	root    string // the files, where they will be installed
	out     string // directory
	here    string // of packaging
	version string // as Go has it, with "v"
	debOnly bool
	date    time.Time

	authorities string // directory with a file for each certificate of a public authority
}

func main() {
	var r release
	flag.StringVar(&r.name, "name", "ccmapd", "program: ccmapd or ccmapd-hub")
	flag.StringVar(&r.root, "root", "", "directory with the files, where they will be installed")
	flag.StringVar(&r.out, "out", "", "directory for the packages")
	flag.StringVar(&r.version, "version", "", "version of the module")
	flag.BoolVar(&r.debOnly, "deb", false, "make the deb alone")
	flag.StringVar(&r.authorities, "authorities", "/usr/share/ca-certificates/mozilla", "directory with the certificates for the image")
	flag.Parse()
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func (r release) make() error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.date = time.Unix(epoch, 0).UTC()
	if r.here, err = os.Getwd(); err != nil {
		return err
	}
	if r.debOnly {
		return r.packages("deb")
	}
	packages := func() error { return r.packages("deb", "rpm") }
	for _, step := range []func() error{packages, r.image, r.components} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// program is the path of the program.
func (r release) program() string { return filepath.Join(r.root, "usr/bin", r.name) }

// file is the path of an output.
func (r release) file(suffix string) string {
	return filepath.Join(r.out, r.name+"-"+r.version+suffix)
}

// isHub reports whether it is the hub, which has no rights, no users that a script makes, and no other program.
func (r release) isHub() bool { return r.name == "ccmapd-hub" }

// packages makes a package of each format, as nfpm.yaml or hub.yaml says.
func (r release) packages(formats ...string) error {
	file := "nfpm.yaml"
	if r.isHub() {
		file = "hub.yaml"
	}
	config, err := nfpm.ParseFileWithEnvMapping(file, func(name string) string { return map[string]string{"VERSION": r.version}[name] })
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if err := os.Chdir(r.root); err != nil { // the sources are relative
		return err
	}
	for _, format := range formats {
		if err := r.pack(config, format); err != nil {
			return fmt.Errorf("make %s: %w", format, err)
		}
	}
	return os.Chdir(r.here)
}

func (r release) pack(config nfpm.Config, format string) error {
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.date
	script := func(name string) string { return filepath.Join(r.here, "scripts", name) }
	if !r.isHub() {
		info.Scripts = nfpm.Scripts{PostInstall: script("postinstall"), PreRemove: script("preremove"), PostRemove: script("postremove")}
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	for _, c := range info.Contents {
		if c.FileInfo != nil {
			c.FileInfo.MTime = r.date
		}
	}
	f, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := packager.Package(info, f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
