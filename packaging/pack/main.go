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
)

// release is what all forms of ccmapd are made of.
type release struct {
	root    string // the files, as they are to be installed
	out     string // directory
	here    string // of packaging
	version string // as Go has it, with "v"
	date    time.Time
}

func main() {
	var r release
	flag.StringVar(&r.root, "root", "", "directory with the files, as they are to be installed")
	flag.StringVar(&r.out, "out", "", "directory for the packages")
	flag.StringVar(&r.version, "version", "", "version of the module")
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
	for _, step := range []func() error{r.packages, r.image, r.components} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// program is the path of the program.
func (r release) program() string { return filepath.Join(r.root, "usr/bin/ccmapd") }

// file is the path of an output.
func (r release) file(suffix string) string {
	return filepath.Join(r.out, "ccmapd-"+r.version+suffix)
}
