// Plugin is code that the computer loads while it runs.
package main

// Compute returns a number that depends on each step before.
func Compute(n int) uint64 {
	x := uint64(n)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		x ^= x >> 29
	}
	return x
}

func main() {}
