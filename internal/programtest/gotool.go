package programtest

import (
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// goTools are the programs of tools, by name.
var goTools sync.Map

// GoTool returns the program of a tool of the go command. 'go tool' looks each time whether it must build the program, which
// takes longer than most of them run.
func GoTool(t testing.TB, name string) string {
	t.Helper()
	if file, found := goTools.Load(name); found {
		return file.(string)
	}
	out, err := exec.Command("go", "tool", "-n", name).Output()
	if err != nil {
		t.Fatalf("find go tool %s: %v", name, err)
	}
	file := strings.TrimSpace(string(out))
	goTools.Store(name, file)
	return file
}
