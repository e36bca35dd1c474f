package rewrite

// run is a sequence of instructions of which either all are executed, or all up
// to one that traps.
type run struct {
	start  int // offset in the module
	length int64
}

// countInstruction takes the decoder's instruction into the run. If it ends the
// run, or if something is about to change in front of it, the length of the run
// is added to ExecutedGlobal where the run begins.
func (w *bodyWriter) countInstruction() {
	op := w.d.op
	if op != opEnd && op != opElse {
		w.run.length++
	}
	if op != opRefFunc && isStraight(op) {
		return
	}
	if w.run.length > 0 {
		w.insert(w.run.start, w.run.start)
		w.buffer = w.layout.appendExecuted(w.buffer, w.run.length)
	}
	w.run = run{start: w.d.at}
}

// appendExecuted: Executed += n
func (l *layout) appendExecuted(b []byte, n int64) []byte {
	b = appendSigned(append(l.get(b, globalExecuted), opI64Const), n)
	return l.set(append(b, opI64Add), globalExecuted)
}

// isStraight: execution goes on with the next instruction, inside the function.
func isStraight(op byte) bool {
	return op == opBlock || op > opReturnCallIndirect
}
