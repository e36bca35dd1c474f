package hub

import (
	"context"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
)

// lateness is how long after its end the hours of a day stay apart.
const lateness = 24 * time.Hour

// isDue reports whether a build has hours to merge, parts to remove, or is to be removed as a whole, as far as the
// list of its objects says.
func (a *aggregator) isDue(objects []bucket.Entry) bool {
	now, bytes := a.now(), int64(0)
	for _, e := range objects {
		bytes += e.Size
		switch level := levelOf(e.Key); {
		case level == levelHour && now.Sub(e.Modified) > lateness,
			a.keep > 0 && level != levelBuild && now.Sub(e.Modified) > a.keep && len(objects) > 1:
			return true
		}
	}
	return a.maxBytes > 0 && bytes > a.maxBytes
}

// tidy merges the hours of days that are over, and removes what is older than the hub keeps, or more. It changes the
// manifest alone: the objects become garbage.
func (a *aggregator) tidy(ctx context.Context, id string) error {
	m, tag, err := readManifest(ctx, a.bucket, id)
	if err != nil {
		return err
	}
	before := slices.Clone(m.Parts)
	m.advance()
	if err := a.mergeDays(ctx, id, m); err != nil {
		return err
	}
	m.retain(a.now(), a.keep, a.maxBytes)
	if slices.Equal(before, m.Parts) {
		return nil
	}
	_, err = swap(ctx, a.bucket, id, m, tag) // lost: next time
	return err
}

// mergeDays merges the hours of each day that is over.
func (a *aggregator) mergeDays(ctx context.Context, id string, m *manifest) error {
	days := make(map[int64][]part)
	for _, p := range m.Parts {
		day := time.Unix(p.From, 0).Truncate(24 * time.Hour)
		if p.Level == levelHour && a.now().Sub(day.Add(24*time.Hour)) > lateness {
			days[day.Unix()] = append(days[day.Unix()], p)
		}
	}
	for day, hours := range days {
		k := partKey{Level: levelDay, From: day}
		all := newSum()
		if is := m.part(k); is != nil { // an aggregator of before had put hours beside it
			hours = append(hours, *is)
		}
		for _, p := range hours {
			is, err := readPart(ctx, a.bucket, p)
			if err != nil {
				return err
			}
			if err := all.Merge(is.Snapshot()); err != nil {
				return err
			}
		}
		m.drop(func(p part) bool { return slices.Contains(hours, p) })
		if err := putPart(ctx, a.bucket, id, m, k, all); err != nil {
			return err
		}
	}
	return nil
}

func (m *manifest) drop(doomed func(part) bool) { m.Parts = slices.DeleteFunc(m.Parts, doomed) }

// retain drops the hours and days that are older than keep, and the oldest ones as long as all parts have more than so
// many bytes. Without new contributions for that time all parts go. What was counted stays known, so that nothing
// counts again.
func (m *manifest) retain(now time.Time, keep time.Duration, most int64) {
	if keep > 0 && now.Sub(m.Updated) > keep {
		m.Parts, m.Outliers = nil, nil
		return
	}
	var times []part
	bytes := int64(0)
	for _, p := range m.Parts {
		bytes += p.Bytes
		if p.Level != levelBuild {
			times = append(times, p)
		}
	}
	slices.SortFunc(times, func(a, b part) int { return int(max(min(a.From-b.From, 1), -1)) })
	for _, p := range times {
		if (keep == 0 || now.Sub(time.Unix(p.From, 0)) <= keep) && (most == 0 || bytes <= most) {
			break
		}
		bytes -= p.Bytes
		m.drop(func(is part) bool { return is.partKey == p.partKey })
	}
}
