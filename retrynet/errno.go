//go:build !plan9

package retrynet

import "syscall"

// systemPasses reports whether err is a temporary network error of the operating system.
func systemPasses(err error) bool {
	e, ok := err.(syscall.Errno)
	if !ok {
		return false
	}
	switch e {
	case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		syscall.ETIMEDOUT, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ENETRESET,
		syscall.EHOSTUNREACH, hostDown,
		// All ports, file descriptors or buffers are in use. Usually some become free soon.
		syscall.EADDRNOTAVAIL, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS,
		syscall.EINTR:
		return true
	}
	// Windows returns the numbers below. On Windows, the constants above, such as ECONNRESET, have
	// values that Go has invented. No other system has such high numbers.
	switch e {
	case 10024, // WSAEMFILE
		10049, // WSAEADDRNOTAVAIL
		10050, // WSAENETDOWN
		10051, // WSAENETUNREACH
		10052, // WSAENETRESET
		10053, // WSAECONNABORTED
		10054, // WSAECONNRESET
		10055, // WSAENOBUFS
		10060, // WSAETIMEDOUT
		10061, // WSAECONNREFUSED
		10064, // WSAEHOSTDOWN
		10065: // WSAEHOSTUNREACH
		return true
	}
	return false
}
