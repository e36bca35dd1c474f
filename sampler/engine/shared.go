package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/bpf"
)

// Shared has engines for many targets of one program. The sources of engine bpf share one host,
// with one timer for each CPU. Any goroutine may call its methods.
type Shared struct {
	options SharedOptions

	mu      sync.Mutex
	host    *bpf.Host
	refused error     // why there is no host
	again   time.Time // when to try again
	broken  []*bpf.Host
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
func NewShared(o SharedOptions) *Shared { return &Shared{options: o} }

// Engines returns all engines, best first.
func (s *Shared) Engines() []Engine { return s.Share(All()) }

// Share returns engines that share what they can.
func (s *Shared) Share(all []Engine) []Engine {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Name == bpf.Engine {
			all[i].Open = opens(s.openOnHost)
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

// OpenWhole samples the whole host.
func (s *Shared) OpenWhole(o bpf.WholeOptions) (Source, error) {
	h, err := s.joined()
	if err != nil {
		return nil, explain(fmt.Errorf("sample the host: %w", err))
	}
	w, err := h.OpenWhole(o)
	if err != nil {
		return nil, explain(err) // not a nil Whole in an interface
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

// Close frees the host. All sources must have ended.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, h := range append(s.broken, s.host) {
		if h != nil {
			err = errors.Join(err, h.Close())
		}
	}
	s.host, s.broken = nil, nil
	return err
}
