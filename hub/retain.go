package hub

import (
	"context"
	"errors"
	"slices"
	"time"
)

// lateness is how long after its end the hours of a day stay apart.
const lateness = 24 * time.Hour

// tidy merges the hours of days that are over, and removes what is older than the hub keeps, or more. It changes the
// manifest alone: the objects become garbage.
func (a *aggregator) tidy(ctx context.Context, m *manifest, to *pack) error {
	if err := a.mergeDays(ctx, m, to); err != nil {
		return err
	}
	m.retain(a.now(), a.keep, a.maxBytes)
	return nil
}

// mergeDays merges the hours of each day that is over.
func (a *aggregator) mergeDays(ctx context.Context, m *manifest, to *pack) error {
	days := make(map[int64][]part)
	for _, p := range m.Parts {
		day := time.Unix(p.From, 0).Truncate(24 * time.Hour)
		if p.Level == levelHour && a.now().Sub(day.Add(24*time.Hour)) > lateness {
			days[day.Unix()] = append(days[day.Unix()], p)
		}
	}
	for day, hours := range days {
		k := partKey{Level: levelDay, From: day}
		if is := m.part(k); is != nil { // an aggregator of before had put hours beside it
			hours = append(hours, *is)
		}
		p, body, err := a.encodeDay(ctx, k, hours)
		if errors.Is(err, errSumFull) {
			continue // they stay apart
		}
		if err != nil {
			return err
		}
		m.drop(func(p part) bool { return slices.Contains(hours, p) })
		to.add(p, body)
	}
	return nil
}

// encodeDay returns the sum of parts, without witnesses.
func (a *aggregator) encodeDay(ctx context.Context, k partKey, parts []part) (part, []byte, error) {
	m, err := mergeParts(ctx, a.bucket, parts)
	if err != nil {
		return part{}, nil, err
	}
	return (&sum{Map: m}).encode(k)
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
