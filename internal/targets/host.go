package targets

import (
	"bytes"
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// A Host is the target of HTTP requests: a scheme, a name or an address, and a port.
type Host struct {
	scheme, name string
	addr         netip.Addr // for IPv6, in place of the name
	port         string     // "": the scheme's
}

// HostOf returns the Host of a URL. It is the same however the URL writes it: in upper or
// lower case, with a dot at the end, with the port that its scheme has anyway, in letters
// beyond ASCII or their punycode, and an IPv6 address short or long. It allocates nothing
// for a name in lower case and ASCII. If the URL's host is too long to be kept, nothing is
// computed from it: the punycode of a name takes a time that grows with the square of its
// length, and a redirect may lead to any name.
func HostOf(u *url.URL) Host {
	if len(u.Host) > longest {
		return Host{scheme: u.Scheme, name: u.Host}
	}
	h := Host{scheme: u.Scheme, name: u.Hostname(), port: u.Port()}
	if addr, v6 := ipv6(h.name); v6 {
		h.name, h.addr = "", addr
	} else {
		h.name = strings.TrimSuffix(punycode(strings.ToLower(h.name)), ".")
	}
	if port := strings.TrimLeft(h.port, "0"); port != "" {
		h.port = port // as net.Dial reads it
	}
	if h.scheme == "http" && h.port == "80" || h.scheme == "https" && h.port == "443" {
		h.port = ""
	}
	return h
}

// Named returns a Host for a target that has only a name.
func Named(name string) Host { return Host{name: name} }

// longest is how many bytes the parts of a Host may have to be kept. No name that can be
// looked up has as many, and a redirect may lead to any.
const longest = 1024

// TooLong reports whether h is not to be kept.
func (h Host) TooLong() bool { return len(h.scheme)+len(h.name)+len(h.port) > longest }

// Clone returns h for a map, without the URL whose parts h has.
func (h Host) Clone() Host {
	h.scheme, h.name, h.port = strings.Clone(h.scheme), strings.Clone(h.name), strings.Clone(h.port)
	return h
}

// ipv6 reads an address. For a name without a colon, netip.ParseAddr would make an error.
func ipv6(name string) (addr netip.Addr, ok bool) {
	if !strings.Contains(name, ":") {
		return addr, false
	}
	addr, err := netip.ParseAddr(name)
	return addr, err == nil
}

// punycode returns a name as net/http writes it into the header Host.
func punycode(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return name
	}
	var sent bytes.Buffer
	req := http.Request{URL: &url.URL{Host: name}}
	_ = req.Write(&sent)
	_, header, _ := strings.Cut(sent.String(), "\r\nHost: ")
	host, _, _ := strings.Cut(header, "\r\n")
	return cmp.Or(host, name) // not every name can be sent
}
