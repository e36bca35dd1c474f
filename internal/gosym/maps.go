package gosym

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// mapping is one line of /proc/PID/maps: addresses [start, end).
type mapping struct {
	start, end        uint64
	offset            uint64 // in the file, bytes
	read, write, exec bool
	device            uint64 // of the file
	inode             uint64 // of the file; 0: it is not a file
	path              string // as the target sees it; empty for anonymous memory
}

// maxMappings bounds what is kept of a memory map (vm.max_map_count is 65,530
// by default), and mappingCost is the cost of one line, in steps and
// in bytes.
const (
	maxMappings = 1 << 17
	mappingCost = 160
)

// readMaps returns the memory map of a process, the beginning of it if it is too
// long.
func readMaps(b *budget, pid int) (space, error) {
	f, err := openProc(pid, "maps")
	if err != nil {
		return nil, fmt.Errorf("read memory map: %w", err)
	}
	defer f.Close()
	maps, err := parseMaps(b, f)
	if err == nil && len(maps) == 0 { // it has exited, and nobody has waited for it
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("read memory map of process %d: %w", pid, err)
	}
	return maps, nil
}

func parseMaps(b *budget, r io.Reader) (space, error) {
	var maps space
	path := ""
	lines := bufio.NewScanner(r)
	for len(maps) < maxMappings && lines.Scan() {
		m, ok := parseMapping(lines.Text())
		if err := b.work(mappingCost); err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if m.path != path { // it is a part of the line, which is not to be kept
			path = strings.Clone(m.path)
		}
		m.path = path
		if err := b.holding(mappingCost + len(path)); err != nil {
			return nil, err
		}
		maps = append(maps, m)
	}
	return maps, lines.Err()
}

// parseMapping reads "start-end perms offset dev inode path" (proc_pid_maps(5)).
// The path may hold spaces; a newline in it is written \012.
func parseMapping(line string) (mapping, bool) {
	var field [5]string
	rest := line
	for i := range field {
		field[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	lo, hi, _ := strings.Cut(field[0], "-")
	start, err1 := strconv.ParseUint(lo, 16, 64)
	end, err2 := strconv.ParseUint(hi, 16, 64)
	offset, err3 := strconv.ParseUint(field[2], 16, 64)
	if err1 != nil || err2 != nil || err3 != nil || start >= end || len(field[1]) < 3 {
		return mapping{}, false
	}
	device, _ := strconv.ParseUint(strings.Replace(field[3], ":", "", 1), 16, 64)
	inode, _ := strconv.ParseUint(field[4], 10, 64)
	return mapping{
		start: start, end: end, offset: offset,
		read: field[1][0] == 'r', write: field[1][1] == 'w', exec: field[1][2] == 'x',
		device: device, inode: inode,
		path: strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n"),
	}, true
}

// space is a memory map in the order of addresses.
type space []mapping

// from returns the mappings that end after addr.
func (s space) from(addr uint64) space {
	i, _ := slices.BinarySearchFunc(s, addr, func(m mapping, addr uint64) int {
		if m.end <= addr {
			return -1
		}
		return 1
	})
	return s[i:]
}

// rest returns how far it is from addr to the end of its mapping; 0 where it is
// in none.
func (s space) rest(addr uint64) uint64 {
	if s = s.from(addr); len(s) > 0 && s[0].start <= addr {
		return s[0].end - addr
	}
	return 0
}

// covered returns how far from addr memory goes on without a gap, each piece
// satisfying ok, and at least want bytes if it goes on so far; 0 where addr itself
// is not in such a piece.
func (l *load) covered(addr, want uint64, ok func(mapping) bool) uint64 {
	end := addr
	for _, m := range l.maps.from(addr) {
		if end-addr >= want || m.start > end || !ok(m) || l.work(1) != nil {
			break
		}
		end = max(end, m.end)
	}
	return end - addr
}

func readable(m mapping) bool   { return m.read }
func executable(m mapping) bool { return m.exec }
