package tuning

import (
	"testing"
	"time"
)

// TestLasting: what repetitions and budgets decide lasts. A slowdown is about one profile, and other reasons are of no
// decision.
func TestLasting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config Config
		change func(*program)
	}{
		"repetitions": {Config{}, func(*program) {}},
		"budget":      {Config{Off: true}, func(p *program) { p.cost, p.known = 200*time.Microsecond, 0 }},
	} {
		p := steady(5 * time.Millisecond)
		c.change(&p)
		s := simulate(t, c.config, 1)
		s.run(p, time.Hour)
		if len(s.decisions) == 0 || !Lasting(s.decisions[0].Reason) {
			t.Errorf("%s: does not last; %v", name, s)
		}
	}
	slow := (&slowdown{settled: 99}).reason(Config{Settle: 98}) + arrow + "10ms → 20ms"
	for reason, want := range map[string]bool{Resumed: true, slow: false, "initial": false, "": false, "the program's own": false} {
		if Lasting(reason) != want {
			t.Errorf("%q lasts: %v", reason, !want)
		}
	}
}
