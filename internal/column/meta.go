package column

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// meta codes a description, without a window.
func (c *coder) meta(m *ccmap.Meta) {
	c.unit(&m.Unit)
	c.target(&m.Target)
	c.text(&m.Engine)
	c.time(&m.Start)
	signed(c, &m.Duration)
	c.text(&m.Ended)
	list(c, &m.Interval, func(i *ccmap.IntervalChange) {
		signed(c, &i.At)
		signed(c, &i.Interval)
		c.text(&i.Reason)
	})
	c.loss(&m.Loss)
	for _, v := range []*uint64{
		&m.Known, &m.Repeated, &m.Pruned.Times, &m.Pruned.Nodes,
		&m.Elided.Samples, &m.Elided.Least, &m.Elided.Most, &m.Elided.Uncounted,
	} {
		c.uint(v)
	}
	c.settled(&m.Settled)
	list(c, &m.Comments, c.text)
}

func (c *coder) unit(u *ccmap.Unit) {
	kind, base := "", ""
	if *u != ccmap.CPUTime {
		kind, base = u.Kind(), u.Base()
	}
	c.text(&kind)
	c.text(&base)
	if c.reading && (kind != "" || base != "") {
		*u = ccmap.NewUnit(kind, base)
	}
}

func (c *coder) target(t *ccmap.Target) {
	signed(c, &t.PID)
	c.text(&t.Executable)
	list(c, &t.CommandLine, c.text)
	c.text(&t.BuildID)
	c.text(&t.Runtime)
}

func (c *coder) loss(l *ccmap.Loss) {
	for _, v := range []*uint64{&l.Source, &l.Queue, &l.Throttled, &l.Corrupt, &l.Orphaned} {
		c.uint(v)
	}
	for _, v := range []*time.Duration{&l.Clock, &l.ClockTick, &l.Unaccounted} {
		signed(c, v)
	}
}

func (c *coder) settled(s *ccmap.Settled) {
	known := *s != ccmap.Settled{}
	if c.bool(&known); !known {
		return
	}
	for _, v := range []*float64{&s.Methods, &s.Edges, &s.Contexts} {
		c.float(v)
	}
	signed(c, &s.Samples)
}

// time codes a time in UTC: seconds and nanoseconds of the Unix epoch.
func (c *coder) time(t *time.Time) {
	known := !t.IsZero()
	if c.bool(&known); !known {
		return
	}
	seconds, nanoseconds := t.Unix(), int64(t.Nanosecond())
	signed(c, &seconds)
	signed(c, &nanoseconds)
	if c.reading {
		*t = time.Unix(seconds, nanoseconds).UTC()
	}
}
