package hotspot

import (
	"encoding/binary"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
)

// places are addresses of a JVM that words of made-up moments lie near.
type places [8]uint64

// Where a made-up moment has its stack.
const madeStack = 0x7ff000000000

func placesOf(t testing.TB, p *Process, worker *process.Moment) (all places) {
	t.Helper()
	all = places{0, p.vm.Low, 0, madeStack, ^uint64(0) - 1<<24, 0, worker.Regs.IP, worker.Regs.BX}
	for i, name := range map[int]string{2: "CodeCache._low_bound", 5: "StubRoutines._call_stub_return_address"} {
		at, _ := p.vm.Static(name)
		all[i], _ = p.vm.Word(at)
	}
	return all
}

// word makes a word of four bytes: near one of the places, which differ from run to run.
func (p *places) word(b []byte) uint64 {
	w := uint64(binary.LittleEndian.Uint32(b))
	return p[w>>24%8] + w&(1<<24-1)
}

// registers are how many words of a made-up moment are its registers.
const registers = 9

// moment makes a moment of any bytes: registers, and the words of the stack.
func (p *places) moment(tid uint32, data []byte) *process.Moment {
	var regs [registers]uint64
	for i := range regs {
		if len(data) >= 4 {
			regs[i], data = p.word(data), data[4:]
		}
	}
	m := &process.Moment{TID: tid, HasRegs: true, Cut: len(data)%8 != 0, Time: regs[0], Regs: process.Registers{
		BX: regs[0], BP: regs[1], SP: regs[2], IP: regs[3], R10: regs[4], R12: regs[5], R13: regs[6], R14: regs[7], R15: regs[8],
	}}
	for ; len(data) >= 4; data = data[4:] {
		m.Stack = binary.LittleEndian.AppendUint64(m.Stack, p.word(data))
	}
	return m
}

// madeMoment returns the bytes of a moment: words near a place each.
func madeMoment(words ...[2]uint32) (data []byte) {
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w[0]<<24|w[1])
	}
	return data
}

// FuzzMoment unwinds any registers and stacks of a thread of a running JVM.
func FuzzMoment(f *testing.F) {
	jvm := jvmtest.JDKs(f)[0].Start(f, nil, "Loop")
	p := openJVM(f, jvm.PID)
	tids, err := process.Threads(jvm.PID)
	if err != nil {
		f.Fatal(err)
	}
	worker := tids[len(tids)-1]
	for _, tid := range tids {
		if p.threadName(tid) == "worker" {
			worker = tid
		}
	}
	m, err := momentOf(jvm.PID, worker)
	if err != nil {
		f.Fatal(err)
	}
	at := placesOf(f, p, m)
	const literal, library, code, stack, top, callStub, ip, method = 0, 1, 2, 3, 4, 5, 6, 7
	for _, pc := range [][2]uint32{{library, 0x400000}, {code, 0x1000}, {callStub, 0}, {ip, 0}, {top, 0xffffff}, {literal, 0}} {
		words := [][2]uint32{{method, 0}, {stack, 0x40}, {stack, 0}, pc, {literal, 0}, {literal, 0}, {stack, 0x20}, {literal, 0}, {literal, 0}}
		for i := range uint32(32) {
			words = append(words, [][2]uint32{{ip, 0}, {stack, 16 * i}, {library, 0x400000 + i<<8}, {callStub, 0}}[i%4])
		}
		f.Add(madeMoment(words...))
	}
	var st process.Stack
	names := ccmap.NewNames()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		p.Unwind(at.moment(worker, data), &st)
		frames := p.Frames(&st, names, nil)
		natives := foundIn(&st).natives
		if natives > len(st.PCs) || len(frames) < natives || len(frames) > maxFrames+1<<16 {
			t.Fatalf("%d addresses, %d of C, %d frames", len(st.PCs), natives, len(frames))
		}
		for _, pc := range st.PCs {
			p.Entry(pc)
		}
	})
}
