package main

import (
	"bytes"
	"fmt"
)

// entry is a file at the root of the virtual machine.
type entry struct {
	name string
	data []byte
}

// Modes of a file that all may execute, and of a folder (inode(7)).
const modeFile, modeFolder = 0o100755, 0o040755

// archive returns the folders and files of an initramfs, in the format newc of cpio
// (Documentation/driver-api/early-userspace/buffer-format.rst, Linux 6.1).
func archive(files []entry) []byte {
	var b bytes.Buffer
	inode := 0
	add := func(name string, mode int, data []byte) {
		inode++
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
			inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
		pad(&b)
		b.Write(data)
		pad(&b)
	}
	for _, folder := range []string{"proc", "sys", "dev", "tmp"} {
		add(folder, modeFolder, nil)
	}
	for _, f := range files {
		add(f.name, modeFile, f.data)
	}
	add("TRAILER!!!", 0, nil)
	return b.Bytes()
}

// pad fills up to a multiple of four bytes.
func pad(b *bytes.Buffer) { b.Write(make([]byte, -b.Len()&3)) }
