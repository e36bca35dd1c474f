package loopback

import "testing"

func TestIsHost(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "127.0.0.1.example": false, "localhost.example": false, "2130706433": false,
	} {
		if got := IsHost(name); got != want {
			t.Errorf("IsHost(%q) = %v", name, got)
		}
	}
}
