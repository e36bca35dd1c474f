package gosym

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// mapping is one line of /proc/PID/maps: addresses [start, end).
type mapping struct {
	start, end        uint64
	offset            uint64 // in the file, bytes
	read, write, exec bool
	path              string // as the target sees it; empty for anonymous memory
}

// maxMappings bounds what is kept of a memory map (vm.max_map_count is 65,530
// by default).
const maxMappings = 1 << 18

func readMaps(pid int) ([]mapping, error) {
	f, err := openProc(pid, "maps")
	if err != nil {
		return nil, fmt.Errorf("read memory map: %w", err)
	}
	defer f.Close()
	maps, err := parseMaps(f)
	if err == nil && len(maps) == 0 { // it has exited, and nobody has waited for it
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("read memory map of process %d: %w", pid, err)
	}
	return maps, nil
}

func parseMaps(r io.Reader) ([]mapping, error) {
	var maps []mapping
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(maps) < maxMappings {
		if m, ok := parseMapping(lines.Text()); ok {
			maps = append(maps, m)
		}
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
	return mapping{
		start: start, end: end, offset: offset,
		read: field[1][0] == 'r', write: field[1][1] == 'w', exec: field[1][2] == 'x',
		path: strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n"),
	}, true
}

// space is a memory map in the order of addresses.
type space []mapping

// covered returns how far from addr memory goes on without a gap, each piece
// satisfying ok; 0 where addr itself is not in such a piece.
func (s space) covered(addr uint64, ok func(mapping) bool) uint64 {
	end := addr
	for _, m := range s {
		if m.end <= end {
			continue
		}
		if m.start > end || !ok(m) {
			break
		}
		end = m.end
	}
	return end - addr
}

// rest returns how far it is from addr to the end of its mapping; 0 where it is
// in none.
func (s space) rest(addr uint64) uint64 {
	for _, m := range s {
		if m.start <= addr && addr < m.end {
			return m.end - addr
		}
	}
	return 0
}

func readable(m mapping) bool   { return m.read }
func executable(m mapping) bool { return m.exec }
