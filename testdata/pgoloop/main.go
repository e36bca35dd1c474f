// Command pgoloop is the service of the loop in docs/pgo.md: it scores documents, and counts them at /metrics.
//
//	pgoloop ADDRESS
//
// It works a third of the time, as a service that waits for its clients.
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// rule scores words. The profile knows that nearly all are weights.
type rule interface{ score(word uint32) uint32 }

type weight struct{ factor uint32 }

func (w *weight) score(word uint32) uint32 { return word * w.factor }

type bonus struct{ least uint32 }

func (b *bonus) score(word uint32) uint32 {
	if word > b.least {
		return 1
	}
	return 0
}

// stem is too large to be inlined without a profile.
func stem(word uint32) uint32 {
	word ^= word >> 16
	word *= 0x7feb352d
	word ^= word >> 15
	word *= 0x846ca68b
	word ^= word >> 16
	if word&1 == 0 {
		word += word<<3 ^ word>>7
	}
	if word&2 == 0 {
		word -= word<<5 ^ word>>11
	}
	if word&4 == 0 {
		word ^= word<<2 + word>>9
	}
	return word
}

//go:noinline
func scoreDocument(words []uint32, rules []rule) (sum uint32) {
	for _, word := range words {
		word = stem(word)
		for _, r := range rules {
			sum += r.score(word)
		}
	}
	return sum
}

var handled, total atomic.Uint64

// handle handles a document of 2,000 words.
func handle(words []uint32, rules []rule) {
	words[handled.Load()%uint64(len(words))]++
	total.Add(uint64(scoreDocument(words, rules)))
	handled.Add(1)
}

func serve(address string) {
	err := http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE documents_total counter\ndocuments_total %d\n", handled.Load())
	}))
	fmt.Fprintln(os.Stderr, "pgoloop:", err)
	os.Exit(1)
}

func main() {
	go serve(os.Args[1])
	words := make([]uint32, 2000)
	for i := range words {
		words[i] = uint32(i) * 2654435761
	}
	rules := []rule{&weight{3}, &weight{5}, &weight{7}, &bonus{1 << 31}}
	for {
		began := time.Now()
		for range 50 {
			handle(words, rules)
		}
		time.Sleep(2 * time.Since(began))
	}
}
