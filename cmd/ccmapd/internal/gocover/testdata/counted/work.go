package main

import (
	"slices"

	lib "example.com/counted/lib.v1"
)

func init() { count("call main.init.0") }

func init() {
	count("call main.init.1")
}

var double = func(n int) int {
	count("call main.init.func1")
	return 2 * n
}

func work(round int) {
	count("call main.work")
	defer func() {
		count("call main.work.func1")
		func() {
			count("call main.work.func1.1")
			if round > 1 { // branch late
				count("taken late")
				return
			}
			count("untaken late")
		}()
	}()
	var s stack[int]
	for i := range 10 * (round + 1) {
		classify(double(i))
		kind(i % 5)
		receive(i)
		s.push(i)
	}
	_ = slices.ContainsFunc(s.items, func(n int) bool { count("call main.work.func2"); return n > 5 })
	mapped(s.items, func(n int) any {
		count("call main.work.func3")
		if n%2 == 0 { // branch mapped
			count("taken mapped")
			return n
		}
		count("untaken mapped")
		return "odd"
	})
	shape{}.value()
	(&shape{}).pointer(round)
	lib.Retry(round, count)
	for range s.all() {
		break
	}
}

func classify(n int) int {
	count("call main.classify")
	if n < 4 { // branch small
		count("taken small")
		return 0
	}
	count("untaken small")
	if m := n % 4; m == 0 && n > 8 { // branch four
		count("taken four")
	} else if n%3 == 0 { // branch three
		count("untaken four")
		count("taken three")
		if n > 100 { // branch never
			count("taken never")
		}
		count("untaken never")
	} else {
		count("untaken four")
		count("untaken three")
	}
	// Not a branch, though it is executed at most as often as what is before it.
	for i := 0; i < n-15; i++ {
		break
	}
	{
		count("a bare block")
	}
	return n
}
