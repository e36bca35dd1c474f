// Package lib has a path that symbols escape.
package lib

// Retry calls itself n times.
func Retry(n int, count func(string)) {
	count("call example.com/counted/lib%2ev1.Retry")
	if n == 0 { // branch end
		count("taken end")
		return
	}
	count("untaken end")
	Retry(n-1, count)
}
