// Receivers makes indirect calls for the tests of package perf. It says "ready",
// waits for a line, makes the calls that its first argument names, in a number of
// goroutines with a thread each, until there is another line, and prints the
// calls: lines of a count and a name. "exec" replaces the program then.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

type shape interface{ Area() int }

type Square struct{ side int }

//go:noinline
func (s *Square) Area() int { return work(s.side) }

// Promoted has Square's method by embedding it.
type Promoted struct {
	id int
	*Square
}

// Value has its method on the value, and interfaces call it by a wrapper.
type Value struct{ a, b int }

//go:noinline
func (v Value) Area() int { return work(v.a + v.b) }

// Box is generic: interfaces call its method by a wrapper that knows the type
// argument.
type Box[T any] struct {
	value T
	side  int
}

//go:noinline
func (b *Box[T]) Area() int { return work(b.side) }

//go:noinline
func work(n int) int {
	x := 0
	for i := range n {
		x += i*i ^ x
	}
	return x
}

// random is xorshift: reproducible, and no call.
type random uint64

func (r *random) next() uint64 {
	x := *r
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = x
	return uint64(x)
}

// total is inlined into its callers, and so is the call in it.
func total(s shape) int { return s.Area() }

const (
	rounds = 1000
	side   = 20
)

// mixed calls shapes at random: share of 256 of them the second one.
//
//go:noinline
func mixed(r *random, first, second shape, share uint64) (sum, seconds int) {
	for range rounds {
		s := first
		if r.next()%256 < share {
			s = second
			seconds++
		}
		sum += total(s)
	}
	return sum, seconds
}

//go:noinline
func closures(f func(int) int) (sum int) {
	for i := range rounds {
		sum += f(i)
	}
	return sum
}

// counts has the number of calls of each callee.
type counts struct {
	sync.Mutex
	made map[string]int
}

func (c *counts) add(name string, n int) {
	c.Lock()
	defer c.Unlock()
	c.made[name] += n
}

func (c *counts) pair(r *random, a shape, aName string, b shape, bName string, share uint64) {
	sum, n := mixed(r, a, b, share)
	if sum != rounds*work(side) {
		panic("a call went wrong")
	}
	c.add(aName, rounds-n)
	c.add(bName, n)
}

// run makes calls of a kind once.
func run(kind string, r *random, c *counts) {
	square := &Square{side}
	switch kind {
	case "bimorphic", "exec":
		c.pair(r, square, "main.(*Square).Area", &Promoted{1, square}, "main.(*Promoted).Area", 64)
	case "wrapped":
		c.pair(r, Value{side / 2, side / 2}, "main.(*Value).Area", &Box[int]{1, side}, "main.(*Box[int]).Area", 128)
	case "closure":
		n := int(r.next() % 30)
		closures(func(i int) int { return work(n + i%2) })
		c.add("main.run.func1", rounds)
	}
}

func main() {
	kind := os.Args[1]
	goroutines, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic("usage: receivers KIND GOROUTINES")
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	in.ReadString('\n')
	var stop atomic.Bool
	go func() {
		in.ReadString('\n')
		if kind == "exec" {
			panic(syscall.Exec("/bin/sleep", []string{"sleep", "60"}, nil))
		}
		stop.Store(true)
	}()
	made := counts{made: make(map[string]int)}
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			runtime.LockOSThread()
			for r := random(i + 88172645463325252); !stop.Load(); {
				run(kind, &r, &made)
			}
		})
	}
	wg.Wait()
	for name, n := range made.made {
		fmt.Println(n, name)
	}
}
