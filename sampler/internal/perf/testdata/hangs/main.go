// Hangs computes, and has memory whose pages never come: userfaultfd(2) serves it, but
// never answers.
//
// usage: hangs registers | hangs modules
//
// A computing thread has the address of the memory in R14, where an engine expects a
// goroutine; or the memory lies over the runtime's moduledata.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

//go:linkname lastmoduledatap runtime.lastmoduledatap
var lastmoduledatap unsafe.Pointer // the only one

const page = 4096

// spin computes for ever with a value in R14.
func spin(r14 uintptr)

func main() {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	ready := [...]byte{'r', 'e', 'a', 'd', 'y', '\n'} // in no page that may be hidden
	var at uintptr
	if os.Args[1] == "modules" {
		at = uintptr(lastmoduledatap) &^ (page - 1)
	}
	at, errno := hang(at)
	if errno != 0 {
		println("userfaultfd:", errno.Error())
		os.Exit(1)
	}
	syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready)))
	spin(at)
}

// hang maps a page that never comes, at an address if it is not 0.
func hang(at uintptr) (uintptr, syscall.Errno) {
	const sysUserfaultfd, ioctlAPI, ioctlRegister, api, missing = 323, 0xc018aa3f, 0xc020aa00, 0xaa, 1
	fd, _, errno := syscall.RawSyscall(sysUserfaultfd, syscall.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	hello := [3]uint64{api}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, fd, ioctlAPI, uintptr(unsafe.Pointer(&hello))); errno != 0 {
		return 0, errno
	}
	flags := uintptr(syscall.MAP_PRIVATE | syscall.MAP_ANON)
	if at != 0 {
		flags |= syscall.MAP_FIXED
	}
	at, _, errno = syscall.RawSyscall6(syscall.SYS_MMAP, at, page, syscall.PROT_READ|syscall.PROT_WRITE, flags, ^uintptr(0), 0)
	if errno != 0 {
		return 0, errno
	}
	register := [4]uint64{uint64(at), page, missing}
	_, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, fd, ioctlRegister, uintptr(unsafe.Pointer(&register)))
	return at, errno
}
