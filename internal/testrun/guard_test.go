package testrun

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Guard(m).Run()) }

// endEnv tells TestFamily how its test binary is to end.
const endEnv = "CCMAPD_TEST_END"

// TestFamily is the run that TestChildrenEndWithTheirTests starts: it has children of several kinds,
// which hold file 3 open.
func TestFamily(t *testing.T) {
	how := os.Getenv(endEnv)
	if how == "" {
		t.Skip("run by TestChildrenEndWithTheirTests")
	}
	for _, line := range []string{
		"exec sleep 600",
		"exec setsid sleep 600",
		"sleep 600 & wait",
		"trap '' TERM HUP INT; (sleep 600; sleep 600) & exit 0",
	} {
		child := exec.Command("sh", "-c", line)
		child.ExtraFiles = []*os.File{os.NewFile(3, "held")}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
	}
	os.Stdout.WriteString("ready\n")
	switch how {
	case "panic":
		go panic("as a test may")
		select {}
	case "exit":
		os.Exit(0)
	case "kill":
		select {}
	}
}

// family starts TestFamily in a run of its own. What is read from held ends when no process of
// the run is left.
func family(t *testing.T, how string, out io.Writer) (cmd *exec.Cmd, held *os.File) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	held, holds, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	cmd = exec.Command(self, "-test.run=^TestFamily$")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, MarkEnv+"=") }), endEnv+"="+how)
	cmd.ExtraFiles = []*os.File{holds}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	holds.Close()
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the run says %q, %v", line, err)
	}
	if how == "kill" {
		cmd.Process.Kill()
	}
	// Its children hold standard output, too, so this ends with the last of them.
	if _, err := io.Copy(out, lines); err != nil {
		t.Fatal(err)
	}
	return cmd, held
}

// TestChildrenEndWithTheirTests: however a test binary ends, the kernel closes the last copy of what
// its children hold.
func TestChildrenEndWithTheirTests(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "panic", "exit"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd, held := family(t, how, io.Discard)
			if all, err := io.ReadAll(held); len(all) > 0 || err != nil {
				t.Fatalf("%q, %v", all, err)
			}
			cmd.Wait()
		})
	}
}

// TestProcessesLeftAreAFailure: a run whose tests pass fails if processes are left, and names them.
func TestProcessesLeftAreAFailure(t *testing.T) {
	Full(t, Minutes) // the guard gives them time to end by themselves
	t.Parallel()
	var out bytes.Buffer
	cmd, _ := family(t, "leave", &out)
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), `"sleep 600 "`) {
		t.Errorf("the run ends with %v and says:\n%s", err, &out)
	}
}

// starters are parts of import paths of what starts processes.
var starters = []string{`"os/exec"`, `/internal/launch"`, `/internal/enginetest"`, `/internal/jvmtest"`, `/testscript"`, `/testdata/guests"`}

// TestPackagesThatStartProcessesAreGuarded reads the tests of all packages of the module.
func TestPackagesThatStartProcessesAreGuarded(t *testing.T) {
	t.Parallel()
	starts, guarded := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && path == "../../packaging" { // a module without this package
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, s := range starters {
			if bytes.Contains(text, []byte(s)) {
				starts[filepath.Dir(path)] = s
			}
		}
		for _, call := range []string{"Guard(m)", "enginetest.Main(m)", "jvmtest.Main(m)"} {
			if bytes.Contains(text, []byte(call)) {
				guarded[filepath.Dir(path)] = true
			}
		}
		return err
	})
	if err != nil || len(starts) < 20 {
		t.Fatalf("found %d packages, %v", len(starts), err)
	}
	for dir, by := range starts {
		if !guarded[dir] {
			t.Errorf("the tests of %s import %s and have no TestMain with testrun.Guard", dir, by)
		}
	}
}
