package served

import (
	"testing"
)

func TestBackOff(t *testing.T) {
	t.Parallel()
	for failures := range 100 {
		longest := min(firstPause<<min(failures, 16), lastPause)
		if got := BackOff(failures + 1); got < longest/2 || got > longest {
			t.Errorf("after %d failures a pause of %v", failures+1, got)
		}
	}
}
