package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/symbols"
)

// digest identifies a guest's binary.
type digest [sha256.Size]byte

// module is a guest's binary. Its instances share it.
//
//	methods … sites  by atomic operations
//	all else         written once
type module struct {
	profiler  *Profiler
	id        string // of the binary
	rewritten *rewrite.Module
	symbols   *symbols.Table
	bodies    []uint64 // hashes of the defined functions

	methods []atomic.Uint32                // by original function: 1 + its id, 0 before its first use
	names   []atomic.Pointer[functionName] // by rewritten function: its name in wazero
	sites   []atomic.Uint32                // by point: 1 + its site, 0 before its first use
}

// functionName is how wazero's stack iterator names a function.
type functionName struct{ module, function string }

// ErrRefused is the error of a guest that is malformed or cannot be rewritten.
var ErrRefused = rewrite.ErrRefused

// CompileModule replaces the runtime's CompileModule: it adds safe points to a guest, and
// compiles it. The guest's instances are sampled from their first safe point on.
//
// The error wraps [ErrRefused] if the guest is malformed or cannot be rewritten
// exactly, and [sampler.ErrUnsupported] if the runtime interprets; else it is wazero's. A
// function listener in the context is not called.
func (p *Profiler) CompileModule(ctx context.Context, binary []byte) (wazero.CompiledModule, error) {
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	m, err := p.module(binary)
	if err != nil {
		return nil, err
	}
	return p.engine.CompileModule(experimental.WithFunctionListenerFactory(ctx, m), m.rewritten.Binary)
}

func digestOf(binary []byte) digest { return sha256.Sum256(binary) }

// module reads a binary, or returns it if it was read before. wazero, too, compiles a
// binary once for all concurrent calls, with the listeners of the first. A binary is read
// without mu, because samples of guests wait for mu; of two concurrent readings the first
// counts.
func (p *Profiler) module(binary []byte) (*module, error) {
	id := digestOf(binary)
	if m := p.known(id); m != nil {
		return m, nil
	}
	m, err := p.readModule(id, bytes.Clone(binary))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.modules[id]; first != nil {
		return first, nil
	}
	p.modules[id] = m
	return m, nil
}

func (p *Profiler) known(id digest) *module {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.modules[id]
}

func (p *Profiler) readModule(id digest, binary []byte) (*module, error) {
	budget := debuginfo.NewBudget(len(binary))
	options := rewrite.Options{
		Marks:      true,
		Calls:      p.Counts(ccmap.PointCall) && !p.options.Exact,
		Points:     p.Counts(ccmap.PointBranch),
		Exact:      p.options.Exact,
		MultiValue: p.multiValue,
		TailCalls:  p.tailCalls && !p.options.Exact,
		Announce:   p.announces,
		Debug:      budget,
	}
	if p.options.Light && !p.options.Exact {
		if l := readLight(p.options.Cached, binary); l != nil {
			options.Quiet, options.Known = l.quiet, l.isKnown
			defer func() { p.note(l.uses) }()
		}
	}
	rewritten, err := rewrite.Rewrite(binary, options)
	if err != nil {
		return nil, fmt.Errorf("rewrite module: %w", err)
	}
	table, err := symbols.Read(binary, budget)
	if err != nil {
		return nil, err
	}
	bodies, err := rewrite.Hashes(binary, table.Name)
	if err != nil {
		return nil, fmt.Errorf("hash functions: %w", err)
	}
	return &module{
		profiler:  p,
		id:        hex.EncodeToString(id[:8]),
		rewritten: rewritten,
		symbols:   table,
		bodies:    bodies,
		methods:   make([]atomic.Uint32, table.Len()),
		names:     make([]atomic.Pointer[functionName], rewritten.Total),
		sites:     make([]atomic.Uint32, len(rewritten.Points)),
	}, nil
}

// NewFunctionListener implements [experimental.FunctionListenerFactory]: it puts
// listeners on the functions that hosts call. wazero calls it with every
// function that the guest defines.
func (m *module) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	m.names[def.Index()].CompareAndSwap(nil, &functionName{def.ModuleName(), def.Name()})
	if x := m.profiler.exact; x != nil {
		return x.listener(m, def.Index())
	}
	if original, ok := m.rewritten.Entries[def.Index()]; ok {
		return &entry{module: m, function: original}
	}
	return nil
}

// method returns the id of an original function. If two functions of different modules
// share name and signature, their modules tell them apart.
func (m *module) method(original uint32) ccmap.MethodID {
	slot := &m.methods[original]
	if id := slot.Load(); id != 0 {
		return ccmap.MethodID(id - 1)
	}
	f := m.symbols.Function(int(original))
	method := ccmap.Method{
		Name: f.Name, Signature: f.Signature, File: f.File, StartLine: f.StartLine,
		Module: m.id, Coordinate: ccmap.CoordinateBytecode,
	}
	if f.Imported {
		method.Module = "" // of the host
	}
	names := m.profiler.Sink().Names
	id := names.Intern(method)
	if names.At(id).Module != method.Module {
		method.Signature += " @" + m.id
		id = names.Intern(method)
	}
	if !f.Imported {
		names.SetBody(id, m.bodies[int(original)-m.rewritten.Imported])
	}
	slot.Store(uint32(id) + 1)
	return id
}

// position is the code at a return address.
type position struct {
	frame   ccmap.Frame
	foreign bool // probably not a function of the module
	added   bool // a function that rewriting has added
	silent  bool // its activations cannot be told apart
}

// locate finds the position of a return address.
func (m *module) locate(f experimental.InternalFunction, pc experimental.ProgramCounter) position {
	index := f.Definition().Index()
	if !m.owns(f.Definition()) {
		return position{foreign: true}
	}
	if original, offset, ok := m.rewritten.Stub(index); ok {
		return m.at(original, offset)
	}
	original, ok := m.rewritten.Function(index)
	if !ok || int(original) < m.rewritten.Imported {
		return position{added: true}
	}
	function, offset, ok := m.rewritten.Original(f.SourceOffsetForPC(pc))
	if !ok || function != original {
		return position{frame: ccmap.Frame{Method: m.method(original), Offset: ccmap.NoOffset}, silent: m.isSilent(original)}
	}
	return m.at(original, offset)
}

// at is a position in an original function.
func (m *module) at(original, offset uint32) position {
	at := ccmap.Frame{Method: m.method(original), Offset: offset}
	m.profiler.Sink().Names.SetLine(at, m.symbols.Line(int(original), offset))
	return position{frame: at, silent: m.isSilent(original)}
}

// isSilent reports whether a function of the original has no poll at its entry.
func (m *module) isSilent(original uint32) bool {
	return m.rewritten.Functions[int(original)-m.rewritten.Imported] == rewrite.Silent
}

// owns reports whether a function belongs to this module, by its index and names: wazero
// shows a frame's function, but only the name of its module.
func (m *module) owns(def api.FunctionDefinition) bool {
	if int(def.Index()) >= len(m.names) {
		return false
	}
	name := m.names[def.Index()].Load()
	return name != nil && *name == functionName{def.ModuleName(), def.Name()}
}
