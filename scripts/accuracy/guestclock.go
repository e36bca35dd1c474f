package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
)

// A guestClock measures how much CPU time each function of a guest takes. It knows
// nothing of safe points: every millisecond of the guest's thread, the kernel samples the
// program counter. wazero's compilation cache has the functions' places in the code.
//
// It is used in this order: config, start, stop. The goroutine that executes the guest
// calls them.
type guestClock struct {
	folder string // of the cache
	cache  wazero.CompilationCache

	code    machineCode
	spent   []time.Duration // by function that the guest defines
	outside time.Duration   // in host functions, wazero, the profiler
	lost    bool            // some samples are missing

	timers  []clockTimer
	form    perfevent.Form
	stopped chan struct{}
	done    chan struct{}
}

// clockTimer samples the thread on one CPU.
type clockTimer struct {
	perfevent.Timer
	ring *perfevent.Ring
}

// newGuestClock returns a clock, or the reason why the kernel permits none.
func newGuestClock() (*guestClock, error) {
	var c guestClock
	err := c.form.Try(unix.Gettid(), clockInterval)
	if errors.Is(err, unix.EINVAL) {
		c.form.NoLost = true // an older kernel
		err = c.form.Try(unix.Gettid(), clockInterval)
	}
	return &c, err
}

const (
	clockInterval = time.Millisecond
	clockDrain    = 20 * time.Millisecond
)

// config makes the runtime keep its machine code in the folder.
func (c *guestClock) config(r wazero.RuntimeConfig) (_ wazero.RuntimeConfig, err error) {
	if c.folder, err = os.MkdirTemp("", "ccmapd-guest"); err != nil {
		return nil, err
	}
	if c.cache, err = wazero.NewCompilationCacheWithDir(c.folder); err != nil {
		return nil, err
	}
	return r.WithCompilationCache(c.cache), nil
}

// locate finds the code of the guest, the largest module of the cache.
func (c *guestClock) locate() error {
	var largest []byte
	err := filepath.WalkDir(c.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if len(content) > len(largest) {
			largest = content
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read what wazero compiled: %w", err)
	}
	if err := c.code.read(largest); err != nil {
		return err
	}
	c.spent = make([]time.Duration, len(c.code.offsets))
	return c.code.find()
}

// start begins to sample this thread, which the goroutine keeps until stop. The guest is
// compiled.
func (c *guestClock) start() error {
	if err := c.locate(); err != nil {
		return err
	}
	cpus, err := process.OnlineCPUs()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	for _, cpu := range cpus {
		if err := c.open(cpu, perfevent.RingBytes(len(cpus))); err != nil {
			runtime.UnlockOSThread()
			return err
		}
	}
	c.stopped, c.done = make(chan struct{}), make(chan struct{})
	go c.run()
	return nil
}

// open opens the timer of one CPU.
func (c *guestClock) open(cpu, size int) error {
	ring, err := perfevent.OpenRing(cpu, size, uint32(size/2))
	if err != nil {
		return err
	}
	timer, err := perfevent.OpenTimer(c.form, clockInterval, unix.Gettid(), cpu)
	if err != nil {
		ring.Close()
		return err
	}
	c.timers = append(c.timers, clockTimer{timer, ring})
	return timer.SendTo(ring)
}

// run drains the rings until stopped is closed, and once more.
func (c *guestClock) run() {
	defer close(c.done)
	tick := time.NewTicker(clockDrain)
	defer tick.Stop()
	for {
		select {
		case <-c.stopped:
			c.drain()
			return
		case <-tick.C:
			c.drain()
		}
	}
}

func (c *guestClock) drain() {
	for i := range c.timers {
		t := &c.timers[i]
		t.ring.Refresh()
		for {
			there, err := t.ring.Peek()
			c.lost = c.lost || err != nil
			if !there {
				break
			}
			c.take(t, t.ring.Next)
			t.ring.Advance()
		}
		t.ring.Release()
	}
}

func (c *guestClock) take(t *clockTimer, r perfevent.Record) {
	if r.Kind != unix.PERF_RECORD_SAMPLE {
		c.lost = c.lost || r.Kind == unix.PERF_RECORD_LOST || r.Kind == unix.PERF_RECORD_LOST_SAMPLES
		return
	}
	s := perfevent.Sample{CountsLost: !c.form.NoLost}
	if err := s.Decode(r.Misc, r.Body); err != nil || !s.HasRegs {
		c.lost = true
		return
	}
	weight, err := t.Weigh(int64(s.Time), int64(s.Count), clockInterval)
	c.lost = c.lost || err != nil
	if f := c.code.function(s.Regs.IP); f >= 0 {
		c.spent[f] += weight
	} else {
		c.outside += weight
	}
}

// stop ends the sampling, and removes the cache.
func (c *guestClock) stop(ctx context.Context) error {
	if c.stopped != nil {
		for i := range c.timers {
			c.timers[i].Stop()
		}
		close(c.stopped)
		<-c.done
		runtime.UnlockOSThread()
	}
	for i := range c.timers {
		c.timers[i].Close()
		c.timers[i].ring.Close()
	}
	return errors.Join(c.cache.Close(ctx), os.RemoveAll(c.folder))
}

// machineCode is the code of a module, as wazero's compilation cache has it, and its place
// in memory.
type machineCode struct {
	offsets []uint64 // by function that the module defines, ascending
	bytes   []byte
	base    uint64
}

// read reads an entry of the cache (wazero v1.12.0, serializeCompiledModule in
// internal/engine/wazevo/engine_cache.go).
func (m *machineCode) read(entry []byte) error {
	const magic = "WAZEVO"
	malformed := errors.New("unknown form of wazero's compilation cache")
	rest, ok := bytes.CutPrefix(entry, []byte(magic))
	if !ok || len(rest) == 0 || len(rest) < 1+int(rest[0])+4 {
		return malformed
	}
	rest = rest[1+int(rest[0]):] // the version
	n := uint64(binary.LittleEndian.Uint32(rest))
	if rest = rest[4:]; uint64(len(rest)) < 8*n+8 {
		return malformed
	}
	for ; n > 0; n-- {
		m.offsets = append(m.offsets, binary.LittleEndian.Uint64(rest))
		rest = rest[8:]
	}
	size := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; size == 0 || uint64(len(rest)) < size {
		return malformed
	}
	m.bytes = rest[:size]
	return nil
}

// findTries is how often find searches: a module that is unloaded meanwhile may cut the code's
// mapping short.
const findTries = 10

// find searches this process's executable memory for the code.
func (m *machineCode) find() error {
	for range findTries {
		if err := m.search(); err != nil || m.base != 0 {
			return err
		}
	}
	return errors.New("the code that wazero compiled is not in memory")
}

// search sets base, if it finds the code.
func (m *machineCode) search() error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return err
	}
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || rights != "r-xp" || strings.Contains(line, "/") {
			continue
		}
		content := make([]byte, to-from)
		n, _ := memory.ReadAt(content, int64(from)) // fails for the kernel's own page, and memory unmapped meanwhile
		if at := bytes.Index(content[:n], m.bytes); at >= 0 {
			m.base = from + uint64(at)
			return nil
		}
	}
	return nil
}

// function returns the function that has the instruction at an address, or -1.
func (m *machineCode) function(address uint64) int {
	if address < m.base || address-m.base >= uint64(len(m.bytes)) {
		return -1
	}
	return sort.Search(len(m.offsets), func(i int) bool { return m.offsets[i] > address-m.base }) - 1
}
