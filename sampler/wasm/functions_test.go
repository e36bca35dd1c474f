package wasm

import (
	"errors"
	"testing"

	"github.com/ccmapd/ccmapd/testdata/guests"
)

// A function that calls nothing and does not loop gets no safe point.
func TestFunctions(t *testing.T) {
	t.Parallel()
	functions, err := Functions([]byte(guests.Endless))
	if err != nil {
		t.Fatal(err)
	}
	polled := 0
	for _, f := range functions {
		if f.Name == "" || f.Imported && f.Bare {
			t.Errorf("%+v", f)
		}
		if !f.Imported && !f.Bare {
			polled++
		}
	}
	if polled == 0 {
		t.Errorf("no function of %+v has a safe point", functions)
	}
	if _, err := Functions([]byte("\x00asm\x01\x00\x00\x00\x01")); !errors.Is(err, ErrRefused) {
		t.Errorf("a malformed module: %v", err)
	}
}
