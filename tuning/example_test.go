package tuning_test

import (
	"fmt"
	"log"
	"time"

	"github.com/ccmapd/ccmapd/tuning"
)

// A loop whose activations last 80 ms, sampled every 10 ms of its CPU time, has
// the same activation on top at seven samples of eight.
func ExampleTuner_Observe() {
	tuner, err := tuning.New(tuning.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for second := 1; second <= 30; second++ {
		n := int(time.Second / tuner.Interval())
		rate := 1 - tuner.Interval().Seconds()/0.080
		decision, changed := tuner.Observe(tuning.Observation{
			At:       time.Duration(second) * time.Second,
			Samples:  n,
			Known:    n,
			Repeated: int(rate * float64(n)),
		})
		if changed {
			fmt.Printf("after %d s: %s\n", second, decision.Reason)
		}
	}
	// Output:
	// after 10 s: repetitions 87.0 % of 1000 known > 15 %: interval 10ms → 70.8ms
}
