// Liar lies about its goroutines: after a line on standard input, the runtime's list has the entries that its argument
// names. Build it with -ldflags=-checklinkname=0.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"
)

//go:linkname allglen runtime.allglen
var allglen uintptr

//go:linkname allgptr runtime.allgptr
var allgptr **byte

// comeAndGo takes pages away, and gives them back.
func comeAndGo(room []byte) {
	const page = 4096
	begin := (page - uintptr(unsafe.Pointer(&room[0]))%page) % page
	for n := uintptr(1); ; n++ {
		at := begin + n*0x9e3779b1%(uintptr(len(room)/page)-32)*page
		pages := room[at : at+16*page]
		_ = syscall.Mprotect(pages, syscall.PROT_NONE)
		_ = syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE)
	}
}

// change makes goroutines others all the time.
func change(room []byte) {
	for n := uint64(1); ; n++ {
		at := n * 0x9e3779b97f4a7c15 % uint64(len(room)/8) * 8
		*(*uint64)(unsafe.Pointer(&room[at])) ^= 1 << (n % 64)
	}
}

func main() {
	debug.SetGCPercent(-1) // the collector believes the list, too
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	const many = 1 << 21
	list, room := make([]uintptr, many), make([]byte, 64<<20)
	base := uintptr(unsafe.Pointer(&room[0]))
	for i := range list {
		switch os.Args[1] {
		case "wild":
			list[i] = uintptr(i) * 0x123456789abcdef
		case "cycle":
			list[i] = *(*uintptr)(unsafe.Pointer(allgptr))
		case "stacks", "unmaps", "changes": // of 1 GB, that end nowhere
			g := base + uintptr(i%(len(room)/512))*512
			list[i] = g
			for at, value := range map[uintptr]uint64{0: 4096, 8: 1 << 46, 56: uint64(g), 64: uint64(g), 144: 3, 152: uint64(i + 1), 104: uint64(g), 112: uint64(*(*uintptr)(unsafe.Pointer(allgptr)))} {
				*(*uint64)(unsafe.Pointer(g + at)) = value
			}
		}
	}
	allgptr = (**byte)(unsafe.Pointer(&list[0]))
	allglen = many
	if os.Args[1] == "endless" {
		allglen = 1 << 60
	}
	fmt.Println("lied")
	switch os.Args[1] {
	case "unmaps":
		go comeAndGo(room)
	case "changes":
		go change(room)
	}
	time.Sleep(time.Hour)
	_ = room[0]
	_ = list[0]
}
