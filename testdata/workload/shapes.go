package workload

import "math"

// shape has two implementations: calls of area are bimorphic.
type shape interface {
	area(t *tally) float64
}

type (
	circle struct{ radius float64 }
	square struct{ side float64 }
)

func (c circle) area(t *tally) float64 {
	t[callCircle]++
	return math.Pi * math.Pow(c.radius, 2)
}

func (s square) area(t *tally) float64 {
	t[callSquare]++
	return math.Pow(s.side, 2)
}

// shapes returns n shapes, of which every fourth is a circle.
func shapes(n int) []shape {
	all := make([]shape, n)
	for i := range all {
		if size := float64(i%17 + 1); i%4 == 3 {
			all[i] = circle{size}
		} else {
			all[i] = square{size}
		}
	}
	return all
}

func totalArea(all []shape, t *tally) float64 {
	var sum float64
	for _, s := range all {
		sum += s.area(t)
	}
	return sum
}
