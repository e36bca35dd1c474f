package ccmap_test

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestStackIDsWithoutVectors checks the ids that processors without vectors give.
func TestStackIDsWithoutVectors(t *testing.T) {
	ccmap.WithoutVectors(func() { checkStackIDs(t) })
}
