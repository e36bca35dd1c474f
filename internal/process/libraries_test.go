package process

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/refusal"
)

func TestLibraries(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := Libraries(os.Getpid()); err != nil || !slices.Contains(all, exe) {
		t.Errorf("of this process: %q, %v; want %q among them", all, err, exe)
	}
	if _, err := Libraries(1<<22 + 1); !errors.Is(err, refusal.ErrNoProcess) {
		t.Errorf("of no process: %v", err)
	}
}

func TestParseLibraries(t *testing.T) {
	t.Parallel()
	const text = `1000-2000 r--p 00000000 08:01 7                          /a b/libjvm.so
2000-3000 r-xp 00001000 08:01 7                          /a b/libjvm.so
3000-4000 r-xp 00001000 08:01 7                          /a b/libjvm.so
4000-5000 rw-p 00002000 08:01 7                          /data
5000-6000 rwxp 00000000 00:00 0 
6000-7000 r-xp 00000000 00:00 0                          [vdso]
7000-8000 r-xp 00000000 08:01 9                          /c (deleted)
nonsense
`
	got, err := parseLibraries(strings.NewReader(text))
	if want := []string{"/a b/libjvm.so", "/c (deleted)"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := parseLibraries(strings.NewReader("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty map: %v", err)
	}
}
