// Package loopback tells this machine from others by a host's name, before anything connects:
// secrets leave the machine by TLS alone, and only others must log in.
package loopback

import "net"

// IsHost reports whether a host, without a port, is this machine by its name alone: an address of
// loopback, or localhost. Any other name may be any machine. Any goroutine may call it.
func IsHost(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}
