package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages makes a package of each format, as nfpm.yaml says.
func (r release) packages() error {
	config, err := nfpm.ParseFileWithEnvMapping("nfpm.yaml", func(name string) string { return map[string]string{"VERSION": r.version}[name] })
	if err != nil {
		return fmt.Errorf("read nfpm.yaml: %w", err)
	}
	if err := os.Chdir(r.root); err != nil { // the sources are relative
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
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
	info.Scripts = nfpm.Scripts{PostInstall: script("postinstall"), PreRemove: script("preremove"), PostRemove: script("postremove")}
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
