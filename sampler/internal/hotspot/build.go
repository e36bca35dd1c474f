package hotspot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
)

// product returns the name of the JVM, out of its own line about itself, such as
// "OpenJDK 64-Bit Server VM (17.0.15+6) for linux-amd64 JRE …".
func product(info string) string {
	name, _, _ := strings.Cut(info, " ")
	if name == "" || len(name) > 64 {
		return "HotSpot"
	}
	return name
}

// buildID tells programs apart whose profiles must not be mixed: by the JVM's library, the main
// class or archive, and name, size and time of each entry of the class path, as the command line
// has them. An entry that cannot be read counts by its name.
func (p *Process) buildID() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", p.vm.BuildID)
	main, classPath := javaname.Program(process.Describe(p.pid).CommandLine)
	fmt.Fprintf(h, "%q\n", main)
	for i, entry := range classPath {
		if i < mostEntries {
			p.hashEntry(h, entry)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// mostEntries bounds the entries of a class path that are looked at.
const mostEntries = 1 << 10

func (p *Process) hashEntry(h hash.Hash, entry string) {
	var st unix.Stat_t
	err := p.watch.Call(func() error { return statInTarget(p.pid, entry, &st) })
	if err != nil {
		st = unix.Stat_t{}
	}
	fmt.Fprintf(h, "%q %d %d.%d\n", entry, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
}

// statInTarget looks at a file by its path in the mount namespace and root of a process. Links
// cannot lead out of that root, and nothing is opened for reading.
func statInTarget(pid int, name string, st *unix.Stat_t) error {
	defer privilege.Raise().Lower()
	proc := fmt.Sprintf("/proc/%d/", pid)
	if !path.IsAbs(name) {
		cwd, err := os.Readlink(proc + "cwd")
		if err != nil {
			return err
		}
		name = path.Join(cwd, name)
	}
	dir, err := unix.Open(proc+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, strings.TrimPrefix(path.Clean(name), "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fstat(fd, st)
}
