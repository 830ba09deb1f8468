package retryhttp

import (
	"bytes"
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// A host is the target of HTTP requests: a scheme, a name or an address, and a port.
type host struct {
	scheme, name string
	addr         netip.Addr // for IPv6, in place of the name
	port         string     // "": the scheme's
}

// hostOf returns the host of a URL. It is the same however the URL writes it: in upper or
// lower case, with a dot at the end, with the port that its scheme has anyway, in letters
// beyond ASCII or their punycode, and an IPv6 address short or long. It allocates nothing
// for a name in lower case and ASCII. If the URL's host is too long to be kept, nothing is
// computed from it: the punycode of a name takes a time that grows with the square of its
// length, and a redirect may lead to any name.
func hostOf(u *url.URL) host {
	if len(u.Host) > longestHost {
		return host{scheme: u.Scheme, name: u.Host}
	}
	h := host{scheme: u.Scheme, name: u.Hostname(), port: u.Port()}
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

// String returns h as the beginning of a URL, such as "http://db:8080". If h is too long to be
// kept, the text is too.
func (h host) String() string {
	if h.tooLong() {
		return h.name
	}
	name := h.name
	if h.addr.IsValid() {
		name = "[" + h.addr.String() + "]"
	}
	if h.port != "" {
		name += ":" + h.port
	}
	u := url.URL{Scheme: h.scheme, Host: name} // writes no control characters
	return u.String()
}

// longestHost is how many bytes the parts of a host may have to be kept. No name that can be
// looked up has as many, and a redirect may lead to any.
const longestHost = 1024

// tooLong reports whether h is not to be kept.
func (h host) tooLong() bool { return len(h.scheme)+len(h.name)+len(h.port) > longestHost }

// clone returns h for a map, without the URL whose parts h has.
func (h host) clone() host {
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
