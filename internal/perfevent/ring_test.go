package perfevent

import "testing"

func TestRoomy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, sample, cpus, want int }{
		{1 << 20, 0, 2, 1 << 20},        // samples are as short as usual
		{1 << 20, 32 << 10, 2, 4 << 20}, // for 128 samples
		{1 << 20, 60 << 10, 2, 8 << 20},
		{1 << 20, 32 << 10, 32, 2 << 20}, // all CPUs together are bounded
		{1 << 20, 32 << 10, 1 << 10, 1 << 20},
	} {
		if got := roomy(c.size, c.sample, c.cpus); got != c.want {
			t.Errorf("samples of %d bytes on %d CPUs: a ring of %d bytes, want %d", c.sample, c.cpus, got, c.want)
		}
	}
}
