package programtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// TestCopiesRunBesideForks executes copies while other goroutines start processes. With plain
// os.WriteFile some copies are busy.
func TestCopiesRunBesideForks(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir := PublicDir(t, 0o755)
	var tests sync.WaitGroup
	for i := range 4 {
		tests.Go(func() {
			file := filepath.Join(dir, string(rune('a'+i)))
			for range 100 {
				Write(t, file, content)
				if out, err := exec.Command(file).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	tests.Wait()
}
