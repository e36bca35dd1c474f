package vmstructs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The bounds of Open. JDK 17 and 25 take a tenth of them.
const (
	maxRead    = 16 << 20 // bytes of memory
	maxReads   = 1 << 14  // reads
	maxEntries = 1 << 13  // of one table
	maxName    = 512      // bytes of a string: C++ types are long
	maxKept    = 4 << 20  // bytes of strings
)

// errCorrupt says that something of libjvm.so makes no sense.
var errCorrupt = fmt.Errorf("it makes no sense: %w", ErrUnsupported)

// budget is what is left of the bounds. All that Open does draws from one budget. One
// goroutine uses it.
type budget struct {
	ctx                context.Context
	bytes, reads, hold int
}

func newBudget(ctx context.Context) *budget {
	return &budget{ctx: ctx, bytes: maxRead, reads: maxReads, hold: maxKept}
}

// reading draws a read of n bytes.
func (b *budget) reading(n int) error {
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	b.bytes -= n
	b.reads--
	if n < 0 || b.bytes < 0 || b.reads < 0 {
		return ErrTooMuch
	}
	return nil
}

// keeping draws n bytes that are kept.
func (b *budget) keeping(n int) error {
	if b.hold -= n; b.hold < 0 {
		return ErrTooMuch
	}
	return nil
}

// load is the reading of one JVM's tables.
type load struct {
	*budget
	mem   Memory
	pages map[uint64][]byte // by address: what strings were read from
}

func (l *load) read(addr uint64, buf []byte) error {
	if err := l.reading(len(buf)); err != nil {
		return err
	}
	return l.mem.Read(addr, buf)
}

// bytesAt returns n bytes of memory.
func (l *load) bytesAt(addr uint64, n int) ([]byte, error) {
	if n < 0 || n > l.bytes {
		return nil, ErrTooMuch
	}
	buf := make([]byte, n)
	return buf, l.read(addr, buf)
}

func (l *load) word(addr uint64) (uint64, error) {
	var b [8]byte
	err := l.read(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

func (l *load) half(addr uint64) (uint32, error) {
	var b [4]byte
	err := l.read(addr, b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

// pageSize is the unit in which strings are read, bytes.
const pageSize = 4096

// fetch reads the pages that hold the strings at some addresses, many with one call. A
// string may go on into the next page, which is read too where it is mapped.
func (l *load) fetch(addrs []uint64) error {
	var wanted []uint64
	for _, a := range addrs {
		for _, page := range []uint64{a &^ (pageSize - 1), (a + maxName) &^ (pageSize - 1)} {
			if a != 0 && page != 0 {
				wanted = append(wanted, page)
			}
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	wanted = slices.DeleteFunc(wanted, func(page uint64) bool { _, ok := l.pages[page]; return ok })
	return l.fetchPages(wanted)
}

// maxBatch is how many ranges one call reads at most (IOV_MAX of Linux).
const maxBatch = 1024

func (l *load) fetchPages(wanted []uint64) error {
	if l.pages == nil {
		l.pages = make(map[uint64][]byte)
	}
	for len(wanted) > 0 {
		batch := wanted[:min(len(wanted), maxBatch)]
		if err := l.reading(len(batch) * pageSize); err != nil {
			return err
		}
		bufs := make([][]byte, len(batch))
		for i := range bufs {
			bufs[i] = make([]byte, pageSize)
		}
		n, err := l.mem.ReadMany(batch, bufs)
		if n < 0 || n > len(batch) || n < len(batch) && err == nil {
			return fmt.Errorf("read pages: %w", errCorrupt)
		}
		for i, page := range batch[:n] {
			l.pages[page] = bufs[i]
		}
		if n < len(batch) {
			l.pages[batch[n]] = nil // it is not mapped
			n++
		}
		wanted = wanted[n:]
	}
	return nil
}

// text returns the string that ends with NUL at an address of fetched pages.
func (l *load) text(addr uint64) (string, error) {
	var name []byte
	for at := addr; len(name) <= maxName; {
		page := l.pages[at&^(pageSize-1)]
		if page == nil {
			return "", fmt.Errorf("read string at %#x: %w", addr, errCorrupt)
		}
		rest := page[at%pageSize:]
		if end := bytes.IndexByte(rest, 0); end >= 0 {
			name = append(name, rest[:end]...)
			return string(name), l.keeping(len(name) + 64)
		}
		name = append(name, rest...)
		at += uint64(len(rest))
	}
	return "", fmt.Errorf("read string at %#x: no end within %d bytes: %w", addr, maxName, errCorrupt)
}

// readVersion reads what the JVM says of itself. It may be missing.
func (l *load) readVersion(v *VM) {
	v.Version = l.staticText(v, "Abstract_VM_Version._s_vm_release")
	v.Info = l.staticText(v, "Abstract_VM_Version._s_internal_vm_info_string")
}

// staticText returns the text that a static field points to.
func (l *load) staticText(v *VM, name string) string {
	addr, ok := v.Static(name)
	if !ok {
		return ""
	}
	at, err1 := l.word(addr)
	err2 := l.fetch([]uint64{at})
	text, err3 := l.text(at)
	if errors.Join(err1, err2, err3) != nil {
		return ""
	}
	return text
}
