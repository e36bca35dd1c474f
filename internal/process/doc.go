// Package process looks at a running process from outside: whether it lives and how it
// ended, its threads, its CPU clock, its memory. It also has the vocabulary between an
// engine, which stops at moments of threads, and a runtime, which makes stacks of them:
//
//	engine ──Moment──▶ Runtime ──Stack──▶ engine ──Frames──▶ queue
//
// An engine is given a [Runtime] and knows no language. Package goproc has the runtime
// of Go.
package process
