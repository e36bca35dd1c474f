package wasi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Mount{
		".":          {Host: ".", Guest: "."},
		"/a":         {Host: "/a", Guest: "/a"},
		"/a:ro":      {Host: "/a", Guest: "/a", ReadOnly: true},
		"/a:/b":      {Host: "/a", Guest: "/b"},
		"/a:/b:ro":   {Host: "/a", Guest: "/b", ReadOnly: true},
		"/a:b:/c:ro": {Host: "/a:b", Guest: "/c", ReadOnly: true},
	} {
		var m Mounts
		if err := m.Set(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(Mounts{want}, m); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		var again Mounts
		if err := again.Set(m.String()); err != nil || again[0] != want {
			t.Errorf("%q is printed as %q", text, &m)
		}
	}
	for _, text := range []string{"", ":", ":ro", "/a:", ":/b"} {
		var m Mounts
		if err := m.Set(text); err == nil {
			t.Errorf("%q is taken for %v", text, m)
		}
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Burst{"16": {16, 1}, "16:4": {16, 4}, "1:1048576": {1, mostBurst}} {
		var got Burst
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "0", "-1", "1:0", "4:", ":4", "1:1048577", "x", "1:2:3"} {
		var got Burst
		if err := got.Set(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
