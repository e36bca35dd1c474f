package main

import (
	"os"
	"strings"
	"testing"
)

// TestRelease: the next tag, the first heading of the changes and the first word of a version are the same.
func TestRelease(t *testing.T) {
	t.Parallel()
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, heading, _ := strings.Cut(string(changes), "\n## ")
	if heading, _, _ = strings.Cut(heading, "\n"); !strings.HasPrefix(heading, nextRelease) {
		t.Errorf("CHANGELOG.md begins with %q, want %q", heading, nextRelease)
	}
	if got := buildVersion(); got != nextRelease && !strings.HasPrefix(got, nextRelease+"-dev") {
		t.Errorf("the version is %q", got)
	}
}
