package mergefiles

import (
	"fmt"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// memory divides the memory of a merge. A quarter is for the profiles that are read ahead,
// in units. The rest is for the sum, and for one profile: a pipe, or a profile that needed
// more than a share of the quarter.
type memory struct {
	limit  int64 // of all, bytes
	pruned bool  // the sum has a limit of its own, and keeps it
	taken  chan struct{}
}

// aheadUnits are the units of the profiles that are read ahead: 4 MiB each by default.
const aheadUnits = 32

// ahead returns how many bytes are for the profiles that are read ahead.
func (m *memory) ahead() int64 { return m.limit / 4 }

// bytes returns how many bytes some units are.
func (m *memory) bytes(units int) int64 {
	return max(m.ahead()/aheadUnits*int64(units), 1)
}

// acquire takes as many units as a profile of a size should need, and waits for them.
func (m *memory) acquire(size int64, quit <-chan struct{}) (units int, ok bool) {
	const most = 128 // times its size: a compressed profile seldom takes more
	units = int(min(size/(m.bytes(1)/most+1)+1, aheadUnits))
	for range units {
		select {
		case m.taken <- struct{}{}:
		case <-quit:
			return 0, false
		}
	}
	return units, true
}

func (m *memory) release(units int) {
	for range units {
		<-m.taken
	}
}

// alone returns how many bytes there are for a profile beside the sum.
func (m *memory) alone(sum *export.Sum) int64 { return max(m.limit-m.ahead()-m.ofSum(sum), 1) }

// ofSum returns how many bytes of the limit the sum takes.
func (m *memory) ofSum(sum *export.Sum) int64 {
	if m.pruned {
		return 0
	}
	return sum.Memory()
}

// checkSum returns an error if the sum takes too much memory.
func (m *Merger) checkSum() error {
	if most := m.memory.limit - m.memory.ahead(); m.memory.ofSum(m.sum) > most {
		return advice.Add(fmt.Errorf("merge %d profiles: %w: their sum takes more than %s", m.Merged, export.ErrMemory, figure.Bytes(most)),
			"Bound the sum with --max-memory SIZE, which prunes it, or raise --max-read-memory SIZE.")
	}
	return nil
}
