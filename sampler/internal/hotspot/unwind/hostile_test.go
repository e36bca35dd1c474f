package unwind

import (
	"encoding/binary"
	"testing"

	"github.com/ccmapd/ccmapd/internal/process"
)

// noise is a memory that has some bytes again and again.
type noise []byte

func (n noise) Read(addr uint64, buf []byte) error {
	for i := range buf {
		buf[i] = n[(addr+uint64(i))%uint64(len(n))]
	}
	return nil
}

func (n noise) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i := range addrs {
		if err := n.Read(addrs[i], bufs[i]); err != nil {
			return i, err
		}
	}
	return len(addrs), nil
}

// Bytecode takes every third word for a method.
func (n noise) Bytecode(method uint64) (uint64, int, bool) {
	return method + 8, int(method % 1000), method%3 == 0
}

var (
	four = func(at uint64) number { return number{at, 4, true} }

	// layout17 is that of OpenJDK 17.0.15, layout25 that of Temurin 25.0.3. Addresses of
	// variables are made up.
	layout17 = layout{
		heaps: 0x10000, lowBound: 0x10008, highBound: 0x10010, callStub: 0x10018,
		arrayLen: four(0), arrayData: 8, memory: 8, segmap: 120, low: 16, high: 24, log2Segment: four(256), block: 16, heapSize: 344,
		sizeBlob: 104, sizeNM: 352, name: 96, codeBegin: 32, codeEnd: 40, size: four(12), frameSize: four(28), frameComplete: four(20),
		nm: nmethodLayout{
			method: 112, compileID: four(304), pcs: four(268), deps: four(272), scopes: 120, metadata: four(260),
			deopt: 128, deoptMH: 136, origPC: four(300), hasDeoptAddr: true,
		},
		wrapperAnchor: 32, threads: threadLayout{list: 0x10020, length: four(4), threads: 16, osthread: 560, tid: 208, anchor: 656, fp: 16, pc: 8},
		pcOffset: four(0), pcScope: four(4), sizePC: 16,
	}
	layout25 = layout{
		heaps: 0x10000, lowBound: 0x10008, highBound: 0x10010, callStub: 0x10018, continuation: 0x10028,
		arrayLen: four(0), arrayData: 8, memory: 0, segmap: 112, low: 16, high: 24, log2Segment: four(248), block: 8, heapSize: 336,
		sizeBlob: 64, sizeNM: 224, name: 8, size: four(24), frameSize: four(44), frameComplete: number{54, 2, true}, code: four(36), data: four(40),
		nm: nmethodLayout{
			method: 80, compileID: four(212), pcs: four(196), isSplit: true, immutable: 96, immSize: four(160), scopesAt: four(200),
			mutable: 16, mutSize: four(48), relocation: four(28), deoptAt: four(176), deoptMHAt: four(180), origPC: four(208), hasDeopt: true,
		},
		wrapperAnchor: 32, threads: threadLayout{list: 0x10020, length: four(4), threads: 16, osthread: 1016, tid: 12, anchor: 1152, fp: 16, pc: 8},
		pcOffset: four(0), pcScope: four(4), sizePC: 16,
	}
)

// madeMethod is a memory that is a compiled method of JDK 17 wherever one looks at a multiple
// of its length: a header, two descriptors, two scopes, a table of two methods. Its code calls
// from offset 0x20, and that call stands for two: of method 0x40006 at 4 and of 0x40003 at 9.
func madeMethod() noise {
	const start = 0x40000
	b := make(noise, 512)
	for at, w := range map[int]uint64{32: start + 0x1000, 40: start + 0x2000, 96: start + 400, 112: start + 3, 120: start + 336, 312: start + 3, 320: start + 6} {
		binary.LittleEndian.PutUint64(b[at:], w)
	}
	for at, w := range map[int]uint32{12: 0x10000, 20: 4, 28: 2, 260: 312, 268: 352, 272: 384, 304: 7, 352: 0x20, 356: 4, 368: 0x30, 372: 1} {
		binary.LittleEndian.PutUint32(b[at:], w)
	}
	copy(b[400:], "nmethod\x00")
	copy(b[336:], []byte{0xff, 0, 1, 10, 1, 2, 5})
	return b
}

// inHeap gives the unwinder a code heap that has its first block where madeMethod begins.
func (u *Unwinder) inHeap(segments []byte) {
	const low = 0x40000 - 16
	u.cache.low, u.cache.high = low, low+1<<20
	u.cache.heaps = []heap{{low: low, high: low + 1<<20, segments: segments, log2: 7}}
}

// madeSegments is the map of one block.
func madeSegments() []byte {
	segments := make([]byte, 256)
	for i := range segments {
		segments[i] = byte(min(i, 1)) // each leads one back
	}
	return segments
}

func TestMadeFrames(t *testing.T) {
	t.Parallel()
	l := layout17
	m := madeMethod()
	u := newUnwinder(&l, m, m)
	u.inHeap(madeSegments())
	stack := make([]byte, 8*8)
	for at := 8; at < len(stack); at += 16 {
		binary.LittleEndian.PutUint64(stack[at:], 0x40000+0x1020)
	}
	var st Stack
	u.Unwind(&process.Moment{HasRegs: true, Time: 1, Cut: true, Stack: stack, Regs: process.Registers{SP: 0x90000, IP: 0x41018}}, &st)
	if len(st.Frames) != 10 || st.Why != EndOfCopy || !st.WantDump || st.Slot != 0x90008 {
		t.Fatalf("%+v", st)
	}
	for i, f := range st.Frames {
		want := Frame{Method: 0x40006, BCI: 4, PC: 0x41020, Kind: Inlined}
		if i%2 == 1 {
			want = Frame{Method: 0x40003, BCI: 9, PC: 0x41020, Kind: Compiled}
		}
		if i < 2 { // the innermost instruction has no descriptor of its own
			want.PC, want.Inexact = 0x41018, true
		}
		if f != want {
			t.Errorf("frame %d is %+v, want %+v", i, f, want)
		}
	}
}

// hostileMoment makes a moment of any bytes.
func hostileMoment(data []byte) *process.Moment {
	at := func(i int) uint64 {
		var b [8]byte
		copy(b[:], data[min(8*i, len(data)):])
		return binary.LittleEndian.Uint64(b[:])
	}
	return &process.Moment{
		TID: uint32(at(0)), Time: at(1), HasRegs: true, Cut: len(data)%2 == 0, Stack: data,
		Regs: process.Registers{BX: at(2), BP: at(3), SP: at(4), IP: at(5), R13: at(6), R15: at(7)},
	}
}

// FuzzUnwind gives the unwinder a JVM whose memory has any bytes, and a thread of it.
func FuzzUnwind(f *testing.F) {
	f.Add([]byte{0})
	// A memory in which words lead to themselves.
	self := make([]byte, 512)
	for at := 0; at < len(self); at += 8 {
		binary.LittleEndian.PutUint64(self[at:], 0x20000+uint64(at)*7%512)
	}
	f.Add(self)
	for _, words := range [][]uint64{
		{0, 1, 0x20018, 0x20000, 0x1ff00, 0x20008, 0x20010, 0x20000, 0x20000, 0x7f0000000000},
		{0x20000, 0, 0x20000, 0x20000, 0x20000, 0x20000, 0x20000, 0x20000, 3, 0x0000000700000001},
	} {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		f.Add(b)
	}
	made := madeMethod()
	for at, w := range map[int]uint64{24: 0x90010, 32: 0x90000, 40: 0x41018} { // BP, SP, IP
		binary.LittleEndian.PutUint64(made[at:], w)
	}
	f.Add([]byte(made))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 1<<12 {
			return
		}
		for _, l := range []layout{layout17, layout25} {
			u := newUnwinder(&l, noise(data), noise(data))
			if len(data)%3 != 0 {
				u.inHeap(madeSegments())
			}
			var st Stack
			for i := range 2 {
				m := hostileMoment(data)
				m.Time += uint64(i) * freshFor
				u.Unwind(m, &st)
				if st.Rooted != (st.Why == Complete) {
					t.Fatalf("rooted %v, but %v", st.Rooted, st.Why)
				}
			}
		}
	})
}

// TestAtRestLies: a list of 32,767 entries that are one thread, which owns every monitor, is read as one.
func TestAtRestLies(t *testing.T) {
	t.Parallel()
	memory := make(noise, 8)
	binary.LittleEndian.PutUint64(memory, 0x7fffffff7ff0)
	l := layout17
	u := newUnwinder(&l, memory, memory)
	a := &AtRest{u, restLayout{state: four(900), pending: 400, stackBase: 700, stackBytes: 708, to: 1024}}
	list, all := a.List()
	if len(list) != 1 || all != 32_767 || maxBytes-u.bytes > 16*MostAtRest {
		t.Fatalf("%d threads of %d, %d bytes", len(list), all, maxBytes-u.bytes)
	}
	threads := a.Read(list, nil)
	m := a.Monitor(0x1000)
	if at, known := a.Owner(&m, threads); !known || at != 0 {
		t.Errorf("owner %d, %v", at, known)
	}
}

// FuzzAtRest gives the reader of threads a JVM whose memory has any bytes.
func FuzzAtRest(f *testing.F) {
	f.Add([]byte{0}, uint64(0))
	self := make([]byte, 2048) // words lead to themselves: the owner of each monitor is each thread, which waits for it
	for at := 0; at < len(self); at += 8 {
		binary.LittleEndian.PutUint64(self[at:], 0x20000)
	}
	f.Add(self, uint64(0x20000))
	rest := restLayout{
		state: four(900), pending: 400, waiting: 408, stackBase: 700, stackBytes: 708, owner: 64, object: 8,
		ownerID: 920, lockTop: 1000, lockBase: 1008, anonymous: 1,
	}
	f.Fuzz(func(t *testing.T, data []byte, monitor uint64) {
		if len(data) == 0 || len(data) > 1<<12 {
			return
		}
		for _, l := range []layout{layout17, layout25} {
			u := newUnwinder(&l, noise(data), noise(data))
			u.inHeap(madeSegments())
			a := &AtRest{u, rest}
			if err := a.r.bound(&l.threads); err != nil {
				t.Fatal(err)
			}
			list, _ := a.List()
			if len(list) > MostAtRest {
				t.Fatalf("%d threads", len(list))
			}
			threads := a.Read(list[:min(len(list), 8)], nil)
			var st Stack
			for i := range threads {
				m := &process.Moment{Time: 1, Cut: true, Stack: data, Regs: process.Registers{SP: threads[i].SP - 64}}
				a.Stack(&threads[i], m, &st)
				if st.Rooted != (st.Why == Complete) || threads[i].StackLeft(monitor) > mostStack {
					t.Fatalf("%+v", st)
				}
			}
			m := a.Monitor(monitor)
			if at, known := a.Owner(&m, threads); known && at >= len(threads) {
				t.Fatalf("owner %d of %d", at, len(threads))
			}
		}
	})
}

// FuzzScopes decodes scopes of any bytes.
func FuzzScopes(f *testing.F) {
	f.Add([]byte{0, 1, 6}, uint16(0))
	f.Add([]byte{0, 1, 6, 0, 2, 191, 192, 255, 255, 255, 255, 3}, uint16(3))
	f.Add([]byte{1, 2, 7, 1, 2, 7, 4, 3, 1}, uint16(6))
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		for coding := range coding(codings) {
			list, ok := coding.scopesAt(data, int(at), nil)
			if len(list) > maxScopes || ok && len(list) == 0 {
				t.Fatalf("%d scopes, %v", len(list), ok)
			}
		}
	})
}

// FuzzSegments looks for the block of an address in any segment map.
func FuzzSegments(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 255}, uint32(3))
	f.Add([]byte{0, 1, 254, 1, 1}, uint32(4))
	f.Fuzz(func(t *testing.T, segments []byte, offset uint32) {
		c := codeCache{memory: &memory{steps: maxSteps}}
		h := heap{low: 1 << 20, high: 1<<20 + uint64(len(segments))<<7, segments: segments, log2: 7}
		pc := h.low + uint64(offset)
		block, ok := c.blockOf(&h, pc)
		if ok && (block < h.low || block > pc || segments[(block-h.low)>>7] != 0) {
			t.Fatalf("the block of %#x is at %#x", pc, block)
		}
	})
}

func TestUnsigned5(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		coding coding
		bytes  []byte
		want   uint32
		next   int
		ok     bool
	}{
		{withNulls, []byte{0}, 0, 1, true},
		{withNulls, []byte{191, 9}, 191, 1, true},
		{withNulls, []byte{192, 0}, 192, 2, true},
		{withNulls, []byte{193, 1}, 193 + 64, 2, true},
		{withNulls, []byte{255, 255, 255, 255, 255}, 255 * (1 + 1<<6 + 1<<12 + 1<<18 + 1<<24) & 0xffffffff, 5, true},
		{withNulls, []byte{192}, 0, 0, false},
		{noNulls, []byte{1}, 0, 1, true},
		{noNulls, []byte{191, 9}, 190, 1, true},
		{noNulls, []byte{192}, 0, 0, false}, // 191, and more to come
		{noNulls, []byte{192, 1}, 191, 2, true},
		{noNulls, []byte{193, 1}, 192, 2, true},
		{noNulls, []byte{0}, 0, 0, false},
	} {
		got, next, ok := c.coding.number(c.bytes, 0)
		if got != c.want || next != c.next || ok != c.ok {
			t.Errorf("% x by coding %d: %d, next %d, %v; want %d, %d, %v", c.bytes, c.coding, got, next, ok, c.want, c.next, c.ok)
		}
	}
}

// TestBounds gives the unwinder a stack of which every word is a return address, and a code
// cache in which there is a method everywhere.
func TestBounds(t *testing.T) {
	t.Parallel()
	l := layout17
	m := madeMethod()
	u := newUnwinder(&l, m, m)
	u.inHeap(madeSegments())
	stack := make([]byte, 1<<20)
	for at := 0; at < len(stack); at += 8 {
		binary.LittleEndian.PutUint64(stack[at:], 0x41020)
	}
	var st Stack
	for i := range 3 {
		u.Unwind(&process.Moment{HasRegs: true, Time: uint64(i) * youngFor, Stack: stack, Regs: process.Registers{SP: 0x90000, BP: 0x90000, IP: 0x41020}}, &st)
		if st.Rooted || st.Why != TooMuch || len(st.Frames) > 2*maxFrames+2 || u.cache.held > maxHeld {
			t.Errorf("%d frames, %d bytes are kept, %v", len(st.Frames), u.cache.held, st.Why)
		}
	}
}

// crowd is the memory of a JVM with many threads: a list of them, then JavaThreads, then
// OSThreads, of which each has its number.
type crowd struct {
	l *threadLayout
	n uint64
}

// Where a crowd has its threads.
const (
	crowdList      = 0x100000
	crowdThreads   = 0x10000000
	crowdOSThreads = 0x40000000
	crowdStride    = 2048 // bytes of a thread, of either kind
)

func (c crowd) Read(addr uint64, buf []byte) error {
	for i := 0; i < len(buf); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], c.word(addr+uint64(i)))
		copy(buf[i:], word[:])
	}
	return nil
}

// word is the word at an address; 0 where the crowd has nothing.
func (c crowd) word(addr uint64) uint64 {
	switch {
	case addr == c.l.list:
		return crowdList
	case addr == crowdList:
		return c.n << (8 * c.l.length.at)
	case addr == crowdList+c.l.threads:
		return crowdList + 64
	case addr >= crowdList+64 && addr < crowdThreads:
		return crowdThreads + (addr-crowdList-64)/8*crowdStride
	case addr >= crowdThreads && addr < crowdOSThreads && addr%crowdStride == c.l.osthread:
		return crowdOSThreads + (addr-crowdThreads)/crowdStride*crowdStride
	case addr >= crowdOSThreads && addr%crowdStride == c.l.tid:
		return (addr-crowdOSThreads)/crowdStride + 1
	}
	return 0
}

func (c crowd) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i := range addrs {
		if err := c.Read(addrs[i], bufs[i]); err != nil {
			return i, err
		}
	}
	return len(addrs), nil
}

// TestCrowd finds threads among a hundred thousand, within the budget of one moment, and
// gives up a list that no JVM has.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const many = 100_000
	for _, c := range []struct {
		n, tid uint64
		found  bool
	}{{many, 1, true}, {many, many, true}, {many, many + 1, false}, {maxThreads + 1, 1, false}, {1 << 31, 1, false}} {
		l := layout17.threads
		m := &memory{live: crowd{&l, c.n}}
		threads := threads{memory: m, l: &l}
		m.renewBudget(nil)
		want := uint64(0)
		if c.found {
			want = crowdThreads + (c.tid-1)*crowdStride
		}
		if got := threads.find(uint32(c.tid), patience); got != want || m.spent() {
			t.Errorf("thread %d of %d is at %#x, want %#x; %d reads are left", c.tid, c.n, got, want, m.reads)
		}
	}
}

// FuzzChunk gives the unwinder a piece of a virtual thread's stack of any bytes, in a JVM whose memory has any bytes.
func FuzzChunk(f *testing.F) {
	const at = 0x90000
	stack := make([]byte, 256)
	for i := 8; i < len(stack); i += 16 {
		binary.LittleEndian.PutUint64(stack[i:], 0x41020)
	}
	interpreted := madeMethod()
	copy(interpreted[400:], "Interpreter\x00")
	links := make([]byte, 512)
	for i := 0; i < len(links); i += 8 { // each word is a distance, or code
		binary.LittleEndian.PutUint64(links[i:], map[bool]uint64{true: 0x41020, false: 12}[i%16 == 8])
	}
	stub := madeMethod()
	copy(stub[400:], "runtime stub\x00")
	for _, m := range []noise{madeMethod(), interpreted, stub} {
		f.Add([]byte(m), stack, uint64(at+16), uint64(at+256))
		f.Add([]byte(m), links, uint64(at+16), uint64(at+512))
	}
	f.Fuzz(func(t *testing.T, data, stack []byte, sp, end uint64) {
		if len(data) == 0 || len(data) > 1<<12 || len(stack) > 1<<14 {
			return
		}
		for _, l := range []layout{layout17, layout25} {
			u := newUnwinder(&l, noise(data), noise(data))
			u.inHeap(madeSegments())
			a := &AtRest{Unwinder: u}
			var st Stack
			a.Begin(1, &st)
			u.inHeap(madeSegments())
			whole := a.Chunk(&Chunk{Bytes: stack, Base: at, SP: sp, End: end}, &st)
			if whole != (st.Why == Complete) || len(st.Frames) > (maxScopes+1)*(len(stack)/8+1) {
				t.Fatalf("whole %v: %d frames, %v", whole, len(st.Frames), st.Why)
			}
		}
	})
}
