package testrun

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// ended is what a call has told a test, if that ends it.
type ended struct{ skipped, failed string }

// told stands for a test that Full and Lacks end.
type told struct{ testing.TB }

func (told) Skip(args ...any)             { panic(ended{skipped: fmt.Sprint(args...)}) }
func (told) Skipf(f string, args ...any)  { panic(ended{skipped: fmt.Sprintf(f, args...)}) }
func (told) Fatalf(f string, args ...any) { panic(ended{failed: fmt.Sprintf(f, args...)}) }

// endOf returns how a call ends a test.
func endOf(call func()) (e ended) {
	defer func() {
		if r := recover(); r != nil {
			e = r.(ended)
		}
	}()
	call()
	return ended{}
}

func TestSwitch(t *testing.T) {
	left := func() { Full(told{t}, Clang) }
	lacks := func() { Lacks(told{t}, "no %s", "perf events") }
	for _, c := range []struct {
		full        string
		left, lacks ended
		noted       string
	}{
		{"", ended{skipped: "needs clang, or wasi-libc: CCMAPD_TEST_FULL=1 adds this test"}, ended{skipped: "no perf events"},
			"left out: needs clang, or wasi-libc\tTestSwitch\nnot possible here: no perf events\tTestSwitch\n"},
		{"1", ended{}, ended{failed: "CCMAPD_TEST_FULL=1, but this machine lacks something: no perf events"}, ""},
	} {
		t.Run(c.full, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "skipped")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv(FullEnv, c.full)
			t.Setenv(SkippedEnv, file)
			if got := endOf(left); got != c.left {
				t.Errorf("Full ends with %+v, want %+v", got, c.left)
			}
			if got := endOf(lacks); got != c.lacks {
				t.Errorf("Lacks ends with %+v, want %+v", got, c.lacks)
			}
			if noted, err := os.ReadFile(file); string(noted) != c.noted || err != nil {
				t.Errorf("noted %q, %v, want %q", noted, err, c.noted)
			}
		})
	}
}
