package main

// clock is what the weight of a profile's samples measures. It follows from the
// engine, which every format of profiles but folded stacks keeps.
type clock uint8

const (
	cpuClock         clock = iota // CPU time of threads
	instructionClock              // executed instructions, each in the place of 1 ns
)

// Engines that sample what runs in ccmapd itself.
const (
	wasmEngine  = "wasm"
	exactEngine = "wasm, exact"
)

func clockOf(engine string) clock {
	if engine == exactEngine {
		return instructionClock
	}
	return cpuClock
}

// String returns what is measured, for people.
func (c clock) String() string {
	return [...]string{cpuClock: "CPU time", instructionClock: "instructions"}[c]
}

// amount prints ns of it: "12.3s of CPU time", "1,234 instructions".
func (c clock) amount(ns int64) string {
	if c == instructionClock {
		return plural(ns, "instruction")
	}
	return formatTime(ns) + " of " + c.String()
}
