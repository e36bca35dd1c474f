package valueprof

import (
	"os/exec"
	"strings"
	"testing"
)

// What a hit costs depends on the compiler inlining it.
func TestHitIsInlined(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the package")
	}
	said, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	for _, method := range []string{"(*Table).Hit"} {
		if !strings.Contains(string(said), "can inline "+method+"\n") {
			t.Errorf("%s is not inlined", method)
		}
	}
}
