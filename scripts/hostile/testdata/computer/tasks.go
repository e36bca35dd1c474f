package main

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
//
// // cosines loads the library of mathematics, adds up cosines, and lets it go.
// static double cosines(int n) {
// 	void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
// 	if (!library) return -1;
// 	double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
// 	double sum = 0;
// 	for (int i = 0; cosine && i < n; i++) sum += cosine(i);
// 	dlclose(library);
// 	return sum;
// }
import "C"

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"plugin"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// task has one right answer.
type task struct {
	name  string
	run   func() uint64
	pause time.Duration // between two runs
}

// tasks returns all tasks. Without the file of the plugin, the plugin's task is missing.
func tasks(library string) ([]task, error) {
	all := []task{
		{name: "calls", run: calls},
		{name: "sorts", run: sorts},
		{name: "stacks", run: stacks},
		{name: "garbage", run: garbage},
		{name: "threads", run: threads, pause: time.Millisecond},
		{name: "signals", run: signals, pause: time.Millisecond},
		{name: "children", run: children{}.run, pause: longPause},
		{name: "library", run: cosines, pause: time.Millisecond},
	}
	if library == "" {
		return all, nil
	}
	p, err := plugin.Open(library)
	if err != nil {
		return nil, err
	}
	symbol, err := p.Lookup("Compute")
	if err != nil {
		return nil, err
	}
	compute, ok := symbol.(func(int) uint64)
	if !ok {
		return nil, fmt.Errorf("plugin's Compute is %T", symbol)
	}
	return append(all, task{name: "plugin", run: func() uint64 { return compute(300_000) }}), nil
}

// shape has calls through an interface, where breakpoints catch types.
type shape interface{ area(depth int) float64 }

type (
	square struct{ side float64 }
	circle struct{ radius float64 }
	group  struct{ parts []shape }
)

//go:noinline
func (s square) area(int) float64 { return s.side * s.side }

//go:noinline
func (c circle) area(int) float64 { return math.Pi * c.radius * c.radius }

func (g *group) area(depth int) float64 {
	sum := 0.0
	for _, part := range g.parts {
		sum += part.area(depth + 1)
	}
	return sum
}

var drawing = draw(9)

func draw(depth int) shape {
	if depth == 0 {
		return circle{2}
	}
	return &group{[]shape{draw(depth - 1), square{float64(depth)}, draw(depth - 1)}}
}

func calls() uint64 {
	sum := 0.0
	for range 50 {
		sum += drawing.area(0)
	}
	return math.Float64bits(sum)
}

func sorts() uint64 {
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := make([]uint64, 10_000)
	for i := range numbers {
		numbers[i] = rng.Uint64()
	}
	slices.Sort(numbers)
	hash := sha256.New()
	for _, n := range numbers {
		hash.Write(binary.LittleEndian.AppendUint64(nil, n))
	}
	return binary.LittleEndian.Uint64(hash.Sum(nil))
}

// stacks recurses on a goroutine of its own, whose stack moves as it grows.
func stacks() uint64 {
	sum := make(chan uint64)
	go func() { sum <- descend(5_000) }()
	return <-sum
}

//go:noinline
func descend(n uint64) uint64 {
	if n == 0 {
		return 1
	}
	return descend(n-1)*31 + n
}

// garbage keeps the collector busy.
func garbage() uint64 {
	words := make(map[string]int)
	for i := range 5_000 {
		words[strings.Repeat(strconv.Itoa(i%700), 3)] += i
	}
	var sum uint64
	for word, n := range words {
		sum += uint64(len(word) * n)
	}
	return sum
}

// threads computes on threads that end with their goroutines, which hold them.
func threads() uint64 {
	parts := make(chan uint64)
	for i := range 4 {
		go func() {
			runtime.LockOSThread()
			x := uint64(i)
			for range 200_000 {
				x = x*6364136223846793005 + 1442695040888963407
			}
			parts <- x
		}()
	}
	return <-parts + <-parts + <-parts + <-parts
}

// signals sends some signals to this process.
func signals() uint64 {
	for range 10 {
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	}
	return 10
}

func cosines() uint64 { return math.Float64bits(float64(C.cosines(1_000))) }

// children computes in children of this executable.
type children struct{}

func (children) run() uint64 {
	out, err := exec.Command("/proc/self/exe", "answer").Output()
	if err != nil {
		return 0
	}
	answer, _ := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64)
	return answer
}

// answer is computed by a child.
func (children) answer() uint64 { return calls() ^ sorts() }
