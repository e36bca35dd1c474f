package main

import "testing"

// The store of root is the daemon's; others have their own.
func TestDefaultStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		euid int
		env  map[string]string
		want string
	}{
		{0, map[string]string{"XDG_STATE_HOME": "/x"}, "/var/lib/ccmapd"},
		{7, map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/ccmapd"},
		{0, map[string]string{"CCMAPD_STORE": "/s"}, "/s"},
		{7, map[string]string{"CCMAPD_STORE": "/s", "XDG_STATE_HOME": "/x"}, "/s"},
		{7, map[string]string{"CCMAPD_STORE": "s", "XDG_STATE_HOME": "/x"}, "/x/ccmapd"},
		{7, map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/ccmapd"},
	} {
		if got := defaultStore(c.euid, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
