package wasi

import (
	"fmt"
	"strconv"
	"strings"
)

// Mounts is the value of a flag that names directories.
type Mounts []Mount

func (m *Mounts) Type() string { return "directory" }

func (m *Mounts) String() string {
	list := make([]string, len(*m))
	for i, one := range *m {
		list[i] = one.Host + ":" + one.Guest
		if one.ReadOnly {
			list[i] += readOnlySuffix
		}
	}
	return strings.Join(list, ",")
}

const readOnlySuffix = ":ro"

// Set takes HOST[:GUEST][:ro]. HOST may have colons if a GUEST follows. Without a GUEST,
// the guest sees the folder under the name HOST.
func (m *Mounts) Set(s string) error {
	rest, readOnly := strings.CutSuffix(s, readOnlySuffix)
	host, guest := rest, rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		host, guest = rest[:i], rest[i+1:]
	}
	if host == "" || guest == "" {
		return fmt.Errorf("%q is not HOST[:GUEST][:ro]", s)
	}
	*m = append(*m, Mount{Host: host, Guest: guest, ReadOnly: readOnly})
	return nil
}

// Burst is the value of a flag that gives the number of samples at each interval, and the
// number of safe points between two of them.
type Burst struct{ Samples, Stride int }

// mostBurst is the largest of both numbers.
const mostBurst = 1 << 20

func (b *Burst) Type() string { return "burst" }

func (b *Burst) String() string {
	if b.Samples == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", b.Samples, b.Stride)
}

func (b *Burst) Set(s string) error {
	first, second, found := strings.Cut(s, ":")
	if !found {
		second = "1"
	}
	samples, err1 := strconv.Atoi(first)
	stride, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || min(samples, stride) < 1 || max(samples, stride) > mostBurst {
		return fmt.Errorf("%q is not two numbers from 1 to %d: write 16 or 16:4", s, mostBurst)
	}
	*b = Burst{samples, stride}
	return nil
}
