package main

import "testing"

// TestWithBase: a daemon's target alone has its base at the daemon.
func TestWithBase(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]string{
		"@web": "@build:web", "unix:/run/x.sock#web": "unix:/run/x.sock#build:web",
		"@web:7": "@web:7", "@best:web": "@best:web", "@": "@", "unix:/run/x.sock": "unix:/run/x.sock", "unix:/run/x.sock#": "unix:/run/x.sock#",
		"web.json": "web.json", "a@b": "a@b", "best:web": "best:web", "http://h/web#web": "http://h/web#web",
	} {
		if got := withBase(where); got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
	}
}
