package demo

import "sync"

// Truth is the record of a run, counted by the program itself.
type Truth struct {
	Mode     string `json:"mode"`
	Requests int64  `json:"requests"` // rounds, in modes other than server
	// Activations has the calls of some functions, by their full symbol names.
	Activations map[string]int64 `json:"activations"`
}

// counted is a function whose calls are counted.
type counted int

const (
	callHandle counted = iota
	callParse
	callNumber
	callVariable
	callNegate
	callBinary
	callCircle
	callSquare
	callWords
	callPlace
	callBurn
	callDescend
	callWorker
	countedFunctions
)

const symbolPrefix = "github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo."

// symbols are the names of the counted functions in the binary, after symbolPrefix.
var symbols = [countedFunctions]string{
	callHandle:   "(*server).handle",
	callParse:    "parse",
	callNumber:   "number.eval",
	callVariable: "variable.eval",
	callNegate:   "negate.eval",
	callBinary:   "binary.eval",
	callCircle:   "circle.area",
	callSquare:   "square.area",
	callWords:    "countWords",
	callPlace:    "(*board).place",
	callBurn:     "burn",
	callDescend:  "descend",
	callWorker:   "worker",
}

// tally counts calls for one goroutine, so that counting costs an increment.
type tally [countedFunctions]int64

// ledger gathers the tallies of all goroutines.
type ledger struct {
	mu       sync.Mutex
	requests int64
	calls    tally
}

// add books one request and its calls.
func (l *ledger) add(t *tally) {
	l.called(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
}

// called books calls that are no request's.
func (l *ledger) called(t *tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f, n := range t {
		l.calls[f] += n
	}
}

// truth returns the booked calls, without functions that were never called.
func (l *ledger) truth(mode string) Truth {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Truth{Mode: mode, Requests: l.requests, Activations: make(map[string]int64)}
	for f, n := range l.calls {
		if n > 0 {
			t.Activations[symbolPrefix+symbols[f]] = n
		}
	}
	return t
}
