// Command shapes calls a method through an interface in a loop, of two types. Tests
// compile it with a profile.
package main

import "time"

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
	shapes := []shape{sq{1}, sq{2}, sq{3}, disc{1}}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		for range 1000 {
			total(shapes)
		}
	}
}
