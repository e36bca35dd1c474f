package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/bpf"
	"github.com/ccmapd/ccmapd/sampler/internal/perf"
)

// Shared has engines for many targets of one program. The sources of engine bpf share one host,
// with one timer for each CPU. Those of engine perf share the rings of the CPUs. Any goroutine may
// call its methods.
type Shared struct {
	options SharedOptions

	mu      sync.Mutex
	host    *bpf.Host
	refused error     // why there is no host
	again   time.Time // when to try again
	rings   *perf.Rings
	broken  []io.Closer // hosts and rings
}

// SharedOptions are the options of a [Shared]. The zero value is useful.
type SharedOptions struct {
	// MaxHostOverhead is the part of a core that engine bpf may take of every CPU; 0 means
	// 0.01; negative means no limit.
	MaxHostOverhead float64

	Logger *slog.Logger // gets messages for the user; nil discards them
}

// hostEvery is the time between two attempts to open the host. Rights come and go, for example by
// sysctl.
const hostEvery = time.Minute

// NewShared opens nothing: the first target does.
func NewShared(o SharedOptions) *Shared {
	return &Shared{options: o, rings: perf.NewRings(perf.RingOptions{Logger: o.Logger})}
}

// Engines returns all engines, best first.
func (s *Shared) Engines() []Engine { return s.Share(All()) }

// Share returns engines that share what they can.
func (s *Shared) Share(all []Engine) []Engine {
	all = slices.Clone(all)
	for i := range all {
		switch all[i].Name {
		case bpf.Engine:
			all[i].Open = opens(s.openOnHost)
		case perf.Engine:
			all[i].Open = opens(s.openOnRings)
		}
	}
	return all
}

// openOnHost attaches with the host, which it opens if there is none.
func (s *Shared) openOnHost(ctx context.Context, o sampler.ProcessOptions) (*bpf.Source, error) {
	h, err := s.joined()
	if err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, err)
	}
	return h.Open(ctx, o)
}

// openOnRings attaches with the rings. Rings that have failed are replaced.
func (s *Shared) openOnRings(ctx context.Context, o sampler.ProcessOptions) (*perf.Source, error) {
	s.mu.Lock()
	if s.rings.Err() != nil {
		s.broken = append(s.broken, s.rings)
		s.rings = perf.NewRings(perf.RingOptions{Logger: s.options.Logger})
	}
	rings := s.rings
	s.mu.Unlock()
	return rings.Open(ctx, o)
}

// WholeOptions are the options of [Shared.OpenWhole].
type WholeOptions = bpf.WholeOptions

// ErrNames: a source ended because its names outgrew their memory.
var ErrNames = bpf.ErrNames

// OpenWhole samples the whole host.
func (s *Shared) OpenWhole(o WholeOptions) (Source, error) {
	h, err := s.joined()
	if err != nil {
		return nil, fmt.Errorf("sample the host: %w", err)
	}
	w, err := h.OpenWhole(o)
	if err != nil {
		return nil, err // not a nil Whole in an interface
	}
	return w, nil
}

// joined returns the host. A host that has failed is replaced.
func (s *Shared) joined() (*bpf.Host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil && s.host.Err() == nil {
		return s.host, nil
	}
	if s.host != nil {
		s.broken, s.host = append(s.broken, s.host), nil
	}
	if s.refused != nil && time.Now().Before(s.again) {
		return nil, s.refused
	}
	s.host, s.refused = bpf.OpenHost(bpf.HostOptions{MaxOverhead: s.options.MaxHostOverhead, Logger: s.options.Logger})
	s.again = time.Now().Add(hostEvery)
	if s.refused != nil {
		s.host = nil
	}
	return s.host, s.refused
}

// Close frees the host and the rings. All sources must have ended.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		s.broken = append(s.broken, s.host)
	}
	err := s.rings.Close()
	for _, c := range s.broken {
		err = errors.Join(err, c.Close())
	}
	s.host, s.broken = nil, nil
	return err
}
