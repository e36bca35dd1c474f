package gosym

import (
	"bufio"
	"bytes"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Remedy says how the functions of a file get names that has no symbol table: "install libc6-dbg". It goes by
// the distribution in the root of the process, whose file it is.
func (t *Table) Remedy(file string) string {
	if file == t.exe {
		return "build it without -s and strip, or install its debug symbols"
	}
	if t.distribution == nil {
		d := t.readDistribution()
		t.distribution = &d
	}
	return t.distribution.remedy(file)
}

// distribution is the family of a Linux distribution.
type distribution uint8

const (
	unknownDistribution distribution = iota
	debian
	fedora
	suse
	alpine
	arch
)

// families tells a distribution by its name in os-release, or by the name of one that it is like.
var families = map[string]distribution{
	"debian": debian, "ubuntu": debian,
	"fedora": fedora, "rhel": fedora, "centos": fedora, "amzn": fedora,
	"suse": suse, "opensuse": suse, "sles": suse, "opensuse-leap": suse, "opensuse-tumbleweed": suse,
	"alpine": alpine, "arch": arch,
}

// cLibrary are the packages with the debug symbols of the C library, and anyLibrary the ways to those of others.
var (
	cLibrary = map[distribution]string{
		debian: "install libc6-dbg", fedora: "run dnf debuginfo-install glibc", suse: "install glibc-debuginfo", alpine: "install musl-dbg",
	}
	anyLibrary = map[distribution]string{
		debian: "install the -dbgsym package that find-dbgsym-packages names (of debian-goodies)",
		fedora: "run dnf debuginfo-install with its package, which rpm -qf names",
		suse:   "install the -debuginfo package of its package, which rpm -qf names",
		alpine: "install the -dbg package of its package, which apk info --who-owns names",
	}
)

const download = "debuginfod-find debuginfo, with its path, gets its debug symbols"

// Files of the C library, of glibc and of musl; and of a JDK of Debian, by its path.
var (
	ofCLibrary = regexp.MustCompile(`^(ld-linux|ld-musl|libc|libm|libpthread|librt|libdl|libresolv|libmvec|libnss_\w+)[-.]`)
	ofDebianVM = regexp.MustCompile(`^/usr/lib/jvm/java-(\d{1,3})-openjdk-`)
)

// remedy says how a file of a distribution gets symbols.
func (d distribution) remedy(file string) string {
	if vm := ofDebianVM.FindStringSubmatch(file); d == debian && vm != nil {
		return "install openjdk-" + vm[1] + "-dbg"
	}
	if name := path.Base(file); ofCLibrary.MatchString(name) && strings.Contains(name, ".so") && cLibrary[d] != "" {
		return cLibrary[d]
	}
	if anyLibrary[d] != "" {
		return anyLibrary[d]
	}
	return download
}

// maxRelease bounds what is read of an os-release, bytes.
const maxRelease = 16 << 10

// readDistribution reads os-release in the root of the process (os-release(5)).
func (t *Table) readDistribution() distribution {
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		f := &watchedFile{watch: t.watch}
		err := t.watch.Call(func() (err error) {
			f.File, err = openInTarget(t.pid, name)
			return err
		})
		if err != nil {
			continue
		}
		raw, err := readRelease(f)
		f.Close()
		if err == nil {
			return parseRelease(raw)
		}
	}
	return unknownDistribution
}

func readRelease(f io.ReaderAt) ([]byte, error) {
	raw := make([]byte, maxRelease)
	n, err := f.ReadAt(raw, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return raw[:n], nil
}

// parseRelease finds the family by ID, and then by ID_LIKE. Both are foreign: they choose among texts of ours.
func parseRelease(raw []byte) distribution {
	var ids [2][]string
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if i := slices.Index([]string{"ID", "ID_LIKE"}, key); i >= 0 {
			ids[i] = strings.Fields(strings.Trim(value, `"'`))
		}
	}
	for _, id := range slices.Concat(ids[0], ids[1]) {
		if d := families[id]; d != unknownDistribution {
			return d
		}
	}
	return unknownDistribution
}
