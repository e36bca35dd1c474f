package gosym

import (
	"os"
	"strings"
	"testing"
)

// TestRemedy: the remedy names the package of the distribution that the file is of.
func TestRemedy(t *testing.T) {
	t.Parallel()
	const libc = "/usr/lib/x86_64-linux-gnu/libc.so.6"
	for _, test := range []struct{ release, file, want string }{
		{"ID=debian\n", libc, "install libc6-dbg"},
		{"ID=debian\n", "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "install libc6-dbg"},
		{"ID=debian\n", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "find-dbgsym-packages"},
		{"ID=debian\n", "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", "install openjdk-17-dbg"},
		{"NAME=\"X\"\nID=pop\nID_LIKE=\"ubuntu debian\"\n", libc, "install libc6-dbg"},
		{"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "/usr/lib64/libc.so.6", "dnf debuginfo-install glibc"},
		{"ID=fedora\n", "/usr/lib64/libz.so.1.3", "rpm -qf"},
		{"ID=alpine\n", "/lib/ld-musl-x86_64.so.1", "install musl-dbg"},
		{"ID=arch\n", "/usr/lib/libc.so.6", "debuginfod-find"},
		{"ID=\x1b[2Jdebian\n", libc, "debuginfod-find"},
		{"", libc, "debuginfod-find"},
	} {
		if got := parseRelease([]byte(test.release)).remedy(test.file); !strings.Contains(got, test.want) {
			t.Errorf("%q, %s: %q, want %q", test.release, test.file, got, test.want)
		}
	}
	table := &Table{pid: os.Getpid(), exe: "/bin/program"}
	if got := table.Remedy("/bin/program"); !strings.Contains(got, "without -s") {
		t.Errorf("of the program: %q", got)
	}
	if got := table.Remedy(libc); got != table.readDistribution().remedy(libc) {
		t.Errorf("of libc: %q", got)
	}
}

// FuzzRelease takes any bytes for an os-release.
func FuzzRelease(f *testing.F) {
	f.Add([]byte("ID=pop\nID_LIKE=\"ubuntu debian\"\n"), "/usr/lib/x86_64-linux-gnu/libc.so.6")
	f.Fuzz(func(t *testing.T, raw []byte, file string) {
		if text := parseRelease(raw).remedy(file); len(text) > 100 {
			t.Errorf("%q", text)
		}
	})
}
