package launch

import (
	"encoding/binary"
	"os"
	"testing"
)

func TestAuxBase(t *testing.T) {
	t.Parallel()
	words := func(w ...uint64) (aux []byte) {
		for _, v := range w {
			aux = binary.NativeEndian.AppendUint64(aux, v)
		}
		return aux
	}
	for _, test := range []struct {
		aux  []byte
		want uintptr
	}{
		{words(3, 64, 7, 0x7f00, 9, 1, 0, 0), 0x7f00},
		{words(3, 7, 9, 7, 0, 0), 0}, // 7 as a value
		{words(7), 0},
		{nil, 0},
	} {
		if got := auxBase(test.aux); got != test.want {
			t.Errorf("base in %x is %#x, want %#x", test.aux, got, test.want)
		}
	}
}

func FuzzAuxBase(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 7), 42))
	f.Fuzz(func(t *testing.T, aux []byte) {
		if auxBase(aux) != 0 && len(aux) < 16 {
			t.Errorf("a base in %d bytes", len(aux))
		}
	})
}

func TestMappedFile(t *testing.T) {
	t.Parallel()
	if file, err := mappedFile(os.Getpid(), 1); file != "" || err != nil {
		t.Errorf("file at address 1: %q, %v", file, err)
	}
	if _, err := mappedFile(1<<31-2, 1); err == nil {
		t.Error("no error for a process that there is not")
	}
}
