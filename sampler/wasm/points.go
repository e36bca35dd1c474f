package wasm

import (
	"context"

	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// pointsWindow is the number of points that a guest reports after each mark, one after the
// other. A report takes about a tenth of a microsecond, so a window at 10 ms costs some
// tenths of a percent.
const pointsWindow = 256

// counted is the host function point: a guest has come to a branch, a switch or a block.
func (p *Profiler) counted(_ context.Context, guest api.Module, params []uint64) {
	site, value := uint32(params[0]), uint32(params[1])
	if p.exact != nil {
		p.exact.point(guest, site, value)
	} else if in := p.instances.get(guest); in != nil {
		in.point(site, value)
	}
}

// wantPoints opens a window, if points are wanted. It is called with mu.
func (in *instance) wantPoints() {
	if in.points != nil {
		in.window = pointsWindow
		in.points.Set(1)
	}
}

// point counts a report, and closes the window after the last one.
func (in *instance) point(site, value uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.window--; in.window <= 0 {
		in.points.Set(0)
	}
	in.module.count(in.thread, site, value)
}

// askEvery is the number of points between two looks whether someone waits for them.
const askEvery = 1 << 12

// point counts a report.
func (x *exact) point(guest api.Module, site, value uint32) {
	t := x.thread(guest, nil)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.points == nil || t.stopped {
		return
	}
	t.module.count(t.points, site, value)
	if t.unasked--; t.unasked < 0 {
		t.unasked = askEvery
		t.mergePoints()
	}
}

// mergePoints gives the points to the profile: a thread without samples has no safe point
// that does.
func (t *exactThread) mergePoints() {
	if t.points != nil {
		t.points.Merge()
	}
}

// count counts a report of a guest.
func (m *module) count(t *managed.Thread, site, value uint32) {
	if int(site) >= len(m.rewritten.Points) {
		return
	}
	switch p := &m.rewritten.Points[site]; p.Kind {
	case rewrite.PointBranch:
		t.Branch(m.site(site), value != 0)
	case rewrite.PointSwitch:
		last := uint32(len(p.Targets) - 1)
		t.Switch(m.site(site), p.Targets[min(value, last)])
	default:
		t.Block(m.site(site))
	}
}

var pointKinds = [...]ccmap.PointKind{
	rewrite.PointBlock: ccmap.PointBlock, rewrite.PointBranch: ccmap.PointBranch, rewrite.PointSwitch: ccmap.PointSwitch,
}

// site returns the profiler's site of a point. The first time it tells the lines.
func (m *module) site(point uint32) managed.Site {
	slot := &m.sites[point]
	if s := slot.Load(); s != 0 {
		return managed.Site(s - 1)
	}
	p := &m.rewritten.Points[point]
	site := m.profiler.Site(pointKinds[p.Kind], m.at(p.Function, p.Offset).frame)
	for _, target := range p.Targets {
		m.at(p.Function, target)
	}
	slot.Store(uint32(site) + 1)
	return site
}
