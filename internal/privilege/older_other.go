//go:build !amd64

package privilege

var older []uint32
