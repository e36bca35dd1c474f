package wasi

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// run runs a module that is not sampled, and returns its standard output.
func run(t *testing.T, binary string, o Options) (End, string) {
	t.Helper()
	var stdout strings.Builder
	o.Stdout = &stdout
	ctx := context.Background()
	g, err := New(ctx, &Module{"/somewhere/guest.wasm", []byte(binary)}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(ctx)
	if err := g.Compile(ctx); err != nil {
		t.Fatal(err)
	}
	return g.Run(ctx), stdout.String()
}

func TestGuestHasArgumentsEnvironmentAndInput(t *testing.T) {
	t.Parallel()
	end, stdout := run(t, string(guests.Small("hello")), Options{
		Args: []string{"-x", "", "--", "y"}, Env: []string{"LANG=C", "EMPTY=", "SUM=1+1=2"}, Stdin: strings.NewReader("first\nsecond\n"),
	})
	const want = "guest.wasm\n-x\n\n--\ny\nLANG=C\nEMPTY=\nSUM=1+1=2\nstdin:\nfirst\nsecond\n"
	if end != (End{}) || stdout != want {
		t.Errorf("ended with %+v, printed %q, want %q", end, stdout, want)
	}
}

// TestSayCompiling: nothing is said of what is compiled at once.
func TestSayCompiling(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	m := &Module{Path: "/somewhere/big.wasm", Binary: make([]byte, 12e6)}
	sayCompiling(&said, m, nil)()
	if said.Len() > 0 {
		t.Errorf("at once: %q", &said)
	}
	slow := make(chan time.Time)
	stop := sayCompiling(&said, m, slow)
	slow <- time.Time{}
	stop()
	if want := "Compiling big.wasm of 12.0 MB, which may take a minute …\n"; said.String() != want {
		t.Errorf("slowly: %q, want %q", &said, want)
	}
}

func TestGuestEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		binary string
		want   End // but for its error
		reason string
	}{
		"tail calls":  {string(guests.Small("tailcalls")), End{}, "module exited with code 0"},
		"return":      {string(guests.Small("hello")), End{}, "module exited with code 0"},
		"proc_exit":   {string(guests.Small("exit")), End{Code: 7}, "module exited with code 7"},
		"library":     {string(guests.Small("fib")), End{}, "module exited with code 0"},
		"empty":       {guests.Empty, End{}, "module exited with code 0"},
		"trap":        {guests.Trapping, End{Trapped: true}, "module trapped: unreachable"},
		"start":       {guests.TrappingAtStart, End{Trapped: true}, "module trapped: unreachable"},
		"instantiate": {guests.BadData, End{NotStarted: true}, "module was not started: "},
	} {
		end, _ := run(t, test.binary, Options{})
		failed := test.want.Trapped || test.want.NotStarted
		if test.want.Err = end.Err; end != test.want || (end.Err != nil) != failed || !strings.HasPrefix(end.reason(), test.reason) {
			t.Errorf("%s: ended with %+v, %q; want %+v, %q", name, end, end.reason(), test.want, test.reason)
		}
	}
}

// TestMountOfAMissingDirectory: the error says which kind it is.
func TestMountOfAMissingDirectory(t *testing.T) {
	t.Parallel()
	m := &Module{Binary: []byte(guests.Empty)}
	missing := Options{Mounts: []Mount{{Host: "/nowhere/at/all", Guest: "/"}}}
	if _, err := New(context.Background(), m, missing); !errors.As(err, new(MountError)) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	if err := Try(); err != nil {
		t.Error(err)
	}
}
