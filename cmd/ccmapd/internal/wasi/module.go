package wasi

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// Module is a WebAssembly module that was read from a file.
type Module struct {
	Path   string // absolute
	Binary []byte
}

// The header of a WebAssembly file (WebAssembly core specification 2.0, section
// 5.5.16): magic, version and, since there are components, what it is.
const (
	moduleMagic  = "\x00asm"
	moduleHeader = len(moduleMagic) + 2 + 2
	moduleSuffix = ".wasm"
	coreVersion  = 1
	coreLayer    = 0
	// of the component model (Binary.md, "preamble")
	componentLayer = 1
)

// mostModuleBytes bounds what is read: engines take no larger modules (WebAssembly
// JavaScript interface, "Implementation-defined Limits": 1 GiB).
const mostModuleBytes = 1 << 30

// Find returns the path of the WebAssembly file that a name means; not of other programs. As
// a shell does, it looks for a name without a slash in $PATH, and only then in the working
// directory.
func Find(name string) (path string, ok bool) {
	if found, err := exec.LookPath(name); err == nil {
		name = found
	}
	return name, strings.HasSuffix(name, moduleSuffix) && isRegular(name) || hasMagic(name)
}

// isRegular reports whether a file may be opened without effect.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// hasMagic reports whether a file begins as WebAssembly does, whatever its name.
func hasMagic(path string) bool {
	if !isRegular(path) {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, len(moduleMagic))
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == moduleMagic
}

// Read reads the module at a path.
func Read(path string) (*Module, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err) // names the file
	}
	if info.Size() > mostModuleBytes {
		return nil, fmt.Errorf("read module %s: %s are more than the %s that modules may have",
			path, figure.Bytes(info.Size()), figure.Bytes(mostModuleBytes))
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	if err := checkModule(binary); err != nil {
		return nil, fmt.Errorf("read module %s: %w", path, err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", path, err)
	}
	return &Module{absolute, binary}, nil
}

// checkModule returns an error for a file that is not a core module.
func checkModule(b []byte) error {
	if len(b) < moduleHeader || !bytes.HasPrefix(b, []byte(moduleMagic)) {
		return advice.Add(errors.New("no WebAssembly module: it does not begin like one"), "Copy or build it again.")
	}
	version, layer := binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:])
	switch {
	case layer == componentLayer:
		return advice.Add(errors.New("a component, and only core modules can be run"),
			"Build it for wasm32-wasip1 (WASI preview 1). 'wasm-tools component unbundle' takes modules out of components.")
	case layer != coreLayer || version != coreVersion:
		return fmt.Errorf("version %d, layer %d of WebAssembly, and only version %d, layer %d can be run", version, layer, coreVersion, coreLayer)
	}
	return nil
}

// target describes the guest as the target of a profile. Its process is this one.
func (g *Guest) target() ccmap.Target {
	m := g.module
	hash := sha256.Sum256(m.Binary)
	return ccmap.Target{
		PID:         os.Getpid(),
		Executable:  m.Path,
		CommandLine: append([]string{m.Path}, g.args...),
		BuildID:     hex.EncodeToString(hash[:]),
		Runtime:     wazeroVersion(),
	}
}
