package process

import (
	"os"
	"testing"
)

// BenchmarkIdentityOf is the price of a look at a process, which a daemon that all users may connect to pays once
// a turn.
func BenchmarkIdentityOf(b *testing.B) {
	for b.Loop() {
		if _, err := IdentityOf(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
