package unwind

import (
	"encoding/binary"
)

// threads finds the JavaThread of an OS thread, by the list that the JVM keeps for readers
// without a lock (threadSMR.hpp).
type threads struct {
	*memory
	l     *threadLayout
	byTID map[uint32]uint64
	when  uint64 // the list was read, CLOCK_MONOTONIC, ns
	read  bool
}

const (
	maxThreads = 1 << 17
	// patience is how long a list is believed to lack a thread, ns: new threads take a
	// while until they are in it, and threads of the JVM's own are never.
	patience = 100e6
)

// find returns the JavaThread of an OS thread; 0 where it has none.
func (t *threads) find(tid uint32, now uint64) uint64 {
	thread, ok := t.byTID[tid]
	if ok && t.tidOf(thread) == tid {
		return thread
	}
	if t.read && now-t.when < patience {
		return 0
	}
	t.when, t.read = now, true
	t.learn()
	return t.byTID[tid]
}

// tidOf asks a JavaThread for its OS thread.
func (t *threads) tidOf(thread uint64) uint32 {
	var b [4]byte
	if t.memory.read(t.word(thread+t.l.osthread)+t.l.tid, b[:]) != nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b[:])
}

// learn reads the list, and the OS threads of all its threads with two calls for 1,024.
func (t *threads) learn() {
	t.byTID = nil
	head, err := t.readBytes(t.word(t.l.list), int(max(t.l.threads, t.l.length.at))+8)
	if err != nil {
		return
	}
	n := t.l.length.of(head)
	if n <= 0 || n > maxThreads {
		return
	}
	raw, err := t.readBytes(word(head, t.l.threads), 8*n)
	if err != nil {
		return
	}
	var addrs []uint64
	for i := range n {
		addrs = append(addrs, word(raw, uint64(8*i))+t.l.osthread)
	}
	osthreads := t.batch(addrs, 8)
	addrs = addrs[:0]
	for _, b := range osthreads {
		addrs = append(addrs, binary.LittleEndian.Uint64(b)+t.l.tid)
	}
	t.byTID = make(map[uint32]uint64, n)
	for i, b := range t.batch(addrs, 4) {
		if tid := binary.LittleEndian.Uint32(b); tid != 0 {
			t.byTID[tid] = word(raw, uint64(8*i))
		}
	}
}

// batch reads some bytes at each of many addresses. They are 0 where they cannot be read.
func (m *memory) batch(addrs []uint64, size int) [][]byte {
	const most = 1024
	all := make([]byte, size*len(addrs))
	bufs := make([][]byte, len(addrs))
	for i := range bufs {
		bufs[i] = all[i*size : (i+1)*size : (i+1)*size]
	}
	for at := 0; at < len(addrs); {
		end := min(at+most, len(addrs))
		m.reads--
		m.bytes -= size * (end - at)
		if m.spent() {
			return bufs
		}
		n, _ := m.live.ReadMany(addrs[at:end], bufs[at:end])
		if n < 0 || n > end-at {
			return bufs
		}
		if at += n; at < end {
			at++ // this one cannot be read
		}
	}
	return bufs
}

// anchor is where a thread has left Java: the frame that called native code.
type anchor struct{ sp, fp, pc uint64 }

// readAnchor reads an anchor; zero where it cannot be read.
func (m *memory) readAnchor(l *threadLayout, addr uint64) anchor {
	raw, err := m.readBytes(addr, int(max(l.sp, l.fp, l.pc))+8)
	if err != nil {
		return anchor{}
	}
	return anchor{word(raw, l.sp), word(raw, l.fp), word(raw, l.pc)}
}
