// Command shapes calls a method through an interface in a loop, of two types. Tests
// compile it with a profile.
package main

import "syscall"

type shape interface{ area() float64 }

type sq struct{ side float64 }

func (s sq) area() float64 { return grow(s.side) * s.side }

type disc struct{ radius float64 }

func (d disc) area() float64 { return grow(d.radius) * 3 }

func grow(x float64) float64 {
	for range 20 {
		x = x*1.5 - 1
	}
	return x
}

func total(shapes []shape) (sum float64) {
	for _, s := range shapes {
		sum += s.area()
	}
	return sum
}

func main() {
	shapes, used := []shape{sq{1}, sq{2}, sq{3}, disc{1}}, syscall.Rusage{}
	for used.Utime.Sec < 2 { // of CPU time, which a busy machine does not shorten
		for range 1000 {
			total(shapes)
		}
		if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
			return
		}
	}
}
