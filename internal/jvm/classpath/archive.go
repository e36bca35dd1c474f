package classpath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

var (
	errArchive = errors.New("not an archive")
	errMuch    = errors.New("too much to read")
	errKind    = errors.New("neither a file nor a folder")
	errPrivate = errors.New("not for all users")
)

// An archive ends with its directory, a record that says how long the directory is, and a comment (APPNOTE 6.3.10,
// 4.3.12 to 4.3.16). A long one has another record before, which ends where the locator of it begins.
const (
	endLen        = 22
	maxComment    = 1<<16 - 1
	locatorLen    = 20
	end64Len      = 56
	headerLen     = 46
	markLen       = 4
	size32, all64 = 12, 1<<32 - 1 // of the directory, in the record; it is in the other record
	size64        = 40
)

// The marks of records.
var (
	endMark     = []byte("PK\x05\x06")
	end64Mark   = []byte("PK\x06\x06")
	locatorMark = []byte("PK\x06\x07")
	headerMark  = []byte("PK\x01\x02")
)

// readDirectory returns the directory of an archive of a size, which may have so many bytes.
func readDirectory(r io.ReaderAt, size, most int64) ([]byte, error) {
	tail := make([]byte, max(min(size, endLen+maxComment+locatorLen+end64Len), 0))
	from := size - int64(len(tail))
	if _, err := r.ReadAt(tail, from); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	at, length := findEnd(tail)
	begin := from + int64(at) - int64(length)
	switch {
	case at < 0 || length > uint64(size) || begin < 0:
		return nil, errArchive
	case int64(length) > most:
		return nil, errMuch
	}
	directory := make([]byte, length)
	if _, err := r.ReadAt(directory, begin); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	return directory, nil
}

// findEnd returns where in the end of an archive its directory ends, -1 if that is no archive, and how long it is.
func findEnd(tail []byte) (at int, length uint64) {
	for at = len(tail) - endLen; at >= 0; at-- {
		comment := binary.LittleEndian.Uint16(tail[at+endLen-2:])
		if bytes.HasPrefix(tail[at:], endMark) && at+endLen+int(comment) == len(tail) {
			break
		}
	}
	if at < 0 {
		return -1, 0
	}
	length = uint64(binary.LittleEndian.Uint32(tail[at+size32:]))
	if locator := at - locatorLen; locator >= end64Len && bytes.HasPrefix(tail[locator:], locatorMark) {
		end := tail[locator-end64Len:]
		if bytes.HasPrefix(end, end64Mark) {
			return locator - end64Len, binary.LittleEndian.Uint64(end[size64:])
		}
	}
	if length == all64 {
		return -1, 0
	}
	return at, length
}

// sumDirectory adds the names, lengths and checksums of the files in an archive. Times and compression are left out.
func sumDirectory(w io.Writer, directory []byte) error {
	var b bytes.Buffer
	for rest := directory; len(rest) > 0; {
		if len(rest) < headerLen || !bytes.HasPrefix(rest, headerMark) {
			return errArchive
		}
		crc, size := binary.LittleEndian.Uint32(rest[16:]), binary.LittleEndian.Uint32(rest[24:])
		name := int(binary.LittleEndian.Uint16(rest[28:]))
		end := headerLen + name + int(binary.LittleEndian.Uint16(rest[30:])) + int(binary.LittleEndian.Uint16(rest[32:]))
		if end > len(rest) {
			return errArchive
		}
		fmt.Fprintf(&b, "%q %d %08x\n", rest[headerLen:headerLen+name], size, crc)
		rest = rest[end:]
	}
	fmt.Fprintf(w, "archive %d\n", b.Len())
	_, err := b.WriteTo(w)
	return err
}
