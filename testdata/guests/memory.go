package guests

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// library calls the exports of a guest that is a library in C. The first error
// stays, and later calls do nothing and return 0: the caller looks at it once.
type library struct {
	ctx    context.Context
	module api.Module
	malloc string // the export that allocates
	err    error
}

func (l *library) call(name string, args ...uint64) uint64 {
	if l.err != nil {
		return 0
	}
	function := l.module.ExportedFunction(name)
	if function == nil {
		l.err = fmt.Errorf("guest exports no %s", name)
		return 0
	}
	results, err := function.Call(l.ctx, args...)
	if err != nil {
		l.err = fmt.Errorf("call %s: %w", name, err)
		return 0
	}
	if len(results) == 0 {
		return 0
	}
	return results[0]
}

// alloc returns the address of n bytes of zeros.
func (l *library) alloc(n int) uint64 {
	address := l.call(l.malloc, uint64(n))
	l.write(address, make([]byte, n))
	return address
}

// text returns the address of a copy of s with a zero behind it.
func (l *library) text(s string) uint64 {
	address := l.call(l.malloc, uint64(len(s)+1))
	l.write(address, append([]byte(s), 0))
	return address
}

func (l *library) write(address uint64, content []byte) {
	if l.err == nil && !l.module.Memory().Write(uint32(address), content) {
		l.err = fmt.Errorf("write %d bytes at %#x: out of the guest's memory", len(content), address)
	}
}

// pointer returns the pointer that lies at an address.
func (l *library) pointer(address uint64) uint64 {
	value, ok := l.module.Memory().ReadUint32Le(uint32(address))
	if l.err == nil && !ok {
		l.err = fmt.Errorf("read at %#x: out of the guest's memory", address)
	}
	return uint64(value)
}

// string returns the text at an address, up to its zero; none at address 0.
func (l *library) string(address uint64) string {
	if l.err != nil || address == 0 {
		return ""
	}
	memory := l.module.Memory()
	rest, ok := memory.Read(uint32(address), memory.Size()-uint32(address))
	end := bytes.IndexByte(rest, 0)
	if !ok || end < 0 {
		l.err = fmt.Errorf("read text at %#x: out of the guest's memory", address)
		return ""
	}
	return string(rest[:end])
}
