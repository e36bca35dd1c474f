package hub

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// within bounds the reading of a contribution, which is a hostile file: 100,000 contexts take 64 MiB.
var within = export.ReadOptions{MaxMemory: 96 << 20, MaxBytes: 64 << 20, MaxSteps: 1 << 28, MaxDepth: 4096}

// timeNoise is how much more CPU time than there was a contribution may have, as a share of it: samples are a measure.
const timeNoise = 0.25

var errNoMap = errors.New("it cannot be a profile of its key")

// readContribution returns the profile of a contribution. The error says why there is none: it is poison.
func readContribution(f contribution.Frame) (*ccmap.Snapshot, error) {
	m, format, err := export.Read(bytes.NewReader(f.Body), within)
	if err != nil {
		return nil, err
	}
	s := m.Snapshot()
	total := s.Total()
	most := f.Key.To.Sub(f.Key.From).Seconds()*float64(f.Key.CPUs)*(1+timeNoise) + 1
	switch {
	case format != export.JSON:
		return nil, fmt.Errorf("%w: it is %s, want JSON", errNoMap, format)
	case m.Meta().Unit != unitOf(f.Key):
		return nil, fmt.Errorf("%w: its unit is %s", errNoMap, m.Meta().Unit)
	case m.Meta().Unit == ccmap.CPUTime && time.Duration(total.Time).Seconds() > most:
		return nil, fmt.Errorf("%w: %s is more CPU time than there was", errNoMap, time.Duration(total.Time))
	case s.WithoutLabels() != s:
		return nil, fmt.Errorf("%w: it has labels, which may hold data of users", errNoMap)
	}
	return s, nil
}

func unitOf(k contribution.Key) ccmap.Unit { return ccmap.NewUnit(k.Kind, k.Base) }

// writeProfile writes a profile as the store does.
func writeProfile(s *ccmap.Snapshot) ([]byte, error) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(export.Write(z, export.JSON, s), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
