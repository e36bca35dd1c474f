package ccmap_test

import (
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestSetAddress(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	outer, inner := names.Intern(ccmap.Method{Name: "outer"}), names.Intern(ccmap.Method{Name: "inner"})
	alone := []ccmap.Frame{{Method: inner, Offset: 1}}
	within := []ccmap.Frame{{Method: inner, Offset: 1}, {Method: outer, Offset: 4}}
	unknown := []ccmap.Frame{{Method: inner, Offset: ccmap.NoOffset}}
	names.SetAddress(within, false, 0x30)
	names.SetAddress(within, false, 0x20)
	names.SetAddress(within, false, 0x40)
	names.SetAddress(alone, true, 0x50)
	names.SetAddress(unknown, false, 0x60)
	names.SetAddress(nil, false, 0x60)
	names.SetAddress(within[1:], false, 0)
	for _, test := range []struct {
		name   string
		frames []ccmap.Frame
		call   bool
		want   uint64
		met    bool
	}{
		{"the first of three", within, false, 0x20, true},
		{"no call", within, true, 0, false},
		{"a call", alone, true, 0x50, true},
		{"not sampled there", alone, false, 0, false},
		{"only what was inlined into it", within[1:], true, 0, true},
		{"unknown position", unknown, false, 0, false},
		{"no frames", nil, false, 0, false},
	} {
		if got, met := names.Address(test.frames, test.call); got != test.want || met != test.met {
			t.Errorf("%s: %#x, met %t, want %#x, %t", test.name, got, met, test.want, test.met)
		}
	}
}

func TestSetMapping(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	first := ccmap.Mapping{File: "/bin/x", Start: 0x400000, Limit: 0x500000}
	names.SetMapping("id", ccmap.Mapping{File: "/empty", Start: 2, Limit: 2})
	names.SetMapping("", first)
	names.SetMapping("id", first)
	names.SetMapping("id", ccmap.Mapping{File: "/bin/y", Start: 0x400000, Limit: 0x500000})
	if got := names.Mapping("id"); got != first || names.Mapping("") != (ccmap.Mapping{}) {
		t.Errorf("mapping %+v, want the first, %+v", got, first)
	}
	if first.Contains(0x3fffff) || !first.Contains(0x400000) || first.Contains(0x500000) {
		t.Error("a mapping goes from its start up to and without its limit")
	}
}

// TestMergeKeepsAddresses merges maps whose methods have other ids.
func TestMergeKeepsAddresses(t *testing.T) {
	t.Parallel()
	sum := ccmap.New(ccmap.Options{})
	mapping := ccmap.Mapping{File: "/bin/x", Start: 0x1000, Limit: 0x9000}
	for offset := uint64(3); offset > 0; offset-- {
		m := ccmap.New(ccmap.Options{})
		m.Names().Intern(ccmap.Method{Name: string(rune('a' + offset))})
		inner, outer := m.Names().Intern(ccmap.Method{Name: "inner"}), m.Names().Intern(ccmap.Method{Name: "outer"})
		m.Names().SetAddress([]ccmap.Frame{{Method: inner, Offset: 7}, {Method: outer, Offset: 8}}, true, offset)
		m.Names().SetMapping("id", mapping)
		if err := sum.Merge(m.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	if err := sum.Merge(sum.Snapshot()); err != nil {
		t.Fatal(err)
	}
	inner, _ := sum.Names().Lookup("inner", "")
	outer, _ := sum.Names().Lookup("outer", "")
	got, _ := sum.Names().Address([]ccmap.Frame{{Method: inner, Offset: 7}, {Method: outer, Offset: 8}}, true)
	if got != 1 || sum.Names().Mapping("id") != mapping {
		t.Errorf("address %#x of %+v, want 0x1 of %+v", got, sum.Names().Mapping("id"), mapping)
	}
}

// TestAddressesHammer sets and reads addresses in many goroutines.
func TestAddressesHammer(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	id := names.Intern(ccmap.Method{Name: "f"})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range uint32(2000) {
				frames := []ccmap.Frame{{Method: id, Offset: i}, {Method: id, Offset: i % 10}}
				names.SetAddress(frames, i%2 == 0, uint64(i)+1)
				if got, _ := names.Address(frames, i%2 == 0); got != uint64(i)+1 {
					t.Errorf("address %#x of offset %d", got, i)
				}
			}
		})
	}
	all.Wait()
}
