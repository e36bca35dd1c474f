package main

import "iter"

func kind(n int) {
	count("call main.kind")
	switch n { // switch kind
	case 0: // case zero
		count("case zero")
		fallthrough
	case 1: // case one
		if n == 1 { // branch one
			count("taken one")
			count("case one")
		} else {
			count("untaken one")
		}
	case 2: // case two
		count("case two")
	case 9: // case nine
	default: // case other
		count("case other")
	}
	switch { // switch open
	case n > 3: // case above
		count("case above")
	case n == -1: // case minus
		count("case minus")
	}
	if n < 4 { // branch below
		count("taken below")
		count("none open")
	} else {
		count("untaken below")
	}
}

func mapped(items []int, f func(int) any) {
	for _, n := range items {
		switch f(n).(type) { // switch type
		case int: // case int
			count("case int")
		case string: // case string
			count("case string")
		}
	}
}

func receive(n int) {
	c := make(chan int, 1)
	if n%3 == 0 { // branch send
		c <- n
	} else /* or else */ /* it stays empty */ {
	}
	select { // switch select
	case <-c: // case received
		count("taken send")
		count("case received")
	default: // case empty
		count("untaken send")
		count("case empty")
	}
}

type stack[T any] struct{ items []T }

func (s *stack[T]) push(item T) {
	count("call main.(*stack[...]).push")
	s.items = append(s.items, item)
}

func (s *stack[T]) all() iter.Seq[T] {
	count("call main.(*stack[...]).all")
	return func(yield func(T) bool) {
		count("call main.(*stack[...]).all.func1")
		for _, item := range s.items {
			if !yield(item) { // branch yield
				count("taken yield")
				return
			}
			count("untaken yield")
		}
	}
}

type shape struct{}

func (shape) value() { count("call main.shape.value") }

func (s *shape) pointer(n int) {
	count("call main.(*shape).pointer")
again:
	if n > 0 { // branch again
		count("taken again")
		n--
		goto again
	}
	count("untaken again")
}

func unused() {
	if len(truth) > 0 { // branch unused
		kind(1)
	}
}
