package tuning

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// recording is a record of a real process, written by scripts/record.
type recording struct {
	interval time.Duration // CPU time between two samples
	verdicts string        // a letter a sample: n new, r repeated, u unknown
}

func readRecording(t testing.TB, name string) recording {
	t.Helper()
	text, err := os.ReadFile("../testdata/recorded/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if value, ok := strings.CutPrefix(line, "# interval: "); ok {
			r.interval, err = time.ParseDuration(value)
		} else if !strings.HasPrefix(line, "#") {
			r.verdicts += line
		}
	}
	if err != nil || r.interval <= 0 || r.verdicts == "" || strings.Trim(r.verdicts, "nru") != "" {
		t.Fatalf("%s: %d verdicts at interval %v, %v", name, len(r.verdicts), r.interval, err)
	}
	return r
}

// verdict returns the verdict on a sample at a time, after an earlier sample. It is
// repeated if all recorded samples in between are, and unknown if one of them is. The
// recording starts again when it ends.
func (r recording) verdict(earlier, at time.Duration) byte {
	verdict := byte('r')
	for i := earlier/r.interval + 1; i <= at/r.interval; i++ {
		switch v := r.verdicts[int(i)%len(r.verdicts)]; v {
		case 'u':
			return v
		case 'n':
			verdict = v
		}
	}
	return verdict
}

// repetition returns the recording's rate of repetitions at an interval.
func (r recording) repetition(interval time.Duration) float64 {
	const samples = 10_000
	var seen [256]float64
	for i := range time.Duration(samples) {
		seen[r.verdict(i*interval, (i+1)*interval)]++
	}
	return seen['r'] / (seen['r'] + seen['n'])
}

// replay samples a recording for a time at the tuner's interval, and returns the
// decisions. The interval must not be shorter than the recording's.
func (s *simulation) replay(r recording, wall time.Duration) []Decision {
	before := len(s.decisions)
	for end := s.at + wall; s.at < end; {
		interval := s.tuner.Interval()
		s.at += interval
		s.samples++
		o := Observation{At: s.at, Samples: 1, TargetCPU: interval}
		switch r.verdict(s.at-interval, s.at) {
		case 'r':
			o.Known, o.Repeated = 1, 1
		case 'n':
			o.Known = 1
		}
		if d, ok := s.tuner.Observe(o); ok {
			s.decisions = append(s.decisions, d)
		}
	}
	return s.decisions[before:]
}

// inside reports whether the recording's rate of repetitions at the tuner's
// interval lies between the default thresholds.
func (s *simulation) inside(r recording) bool {
	rate := r.repetition(s.tuner.Interval())
	return defaultLow < rate && rate < defaultHigh
}

// At 10 ms, an 80 ms activation is still there at seven samples of eight.
func TestRecordedRepetition(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{"spin-80ms": 0.875, "spin-5ms": 0, "server": 0} {
		if rate := readRecording(t, name).repetition(10 * time.Millisecond); math.Abs(rate-want) > 0.01 {
			t.Errorf("%s: rate %.3f at 10 ms, want %.3f", name, rate, want)
		}
	}
}

func TestRecordedConverges(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	tests := map[string]struct {
		recording string
		config    Config
		changes   int           // at most
		want      time.Duration // the limit that is met; 0: between the thresholds
	}{
		"80 ms loop":         {"spin-80ms", Config{}, 3, 0},
		"80 ms loop clamped": {"spin-80ms", Config{Max: 30 * ms}, 1, 30 * ms},
		"5 ms calls":         {"spin-5ms", Config{}, 4, 0},
		"5 ms calls clamped": {"spin-5ms", Config{Min: 7 * ms}, 1, 7 * ms},
		// With headroom, 1 % pays for a sample of 20 µs every 2.5 ms.
		"server":           {"server", Config{}, 2, 2500 * time.Microsecond},
		"server, half pay": {"server", Config{MaxOverhead: 0.005}, 2, 5 * ms},
		"server clamped":   {"server", Config{Min: 4 * ms}, 2, 4 * ms},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := readRecording(t, tt.recording)
			s := simulate(t, tt.config, 0)
			s.replay(r, 10*time.Minute)
			right := s.tuner.Interval() == tt.want || tt.want == 0 && s.inside(r)
			if !right || len(s.decisions) > tt.changes || !s.tuner.repetitions.resting {
				t.Errorf("want %d changes at most; %v", tt.changes, s)
			}
			if more := s.replay(r, time.Hour); len(more) != 0 || !s.tuner.repetitions.resting {
				t.Errorf("an hour later, with nothing new: %v", s)
			}
		})
	}
}

func TestRecordedPhaseChange(t *testing.T) {
	t.Parallel()
	s := simulate(t, Config{}, 0)
	for _, name := range []string{"spin-5ms", "spin-80ms", "spin-5ms"} {
		r := readRecording(t, name)
		changes := s.replay(r, 20*time.Minute)
		if !s.inside(r) || len(changes) > 4 || !s.tuner.repetitions.resting {
			t.Fatalf("%s: %d changes; %v", name, len(changes), s)
		}
	}
}
