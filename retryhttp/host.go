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
	addr         netip.Addr // an IPv6 address; then name is ""
	port         string     // "": the default port of the scheme
}

// hostOf returns the host of a URL. All spellings of a host give the same result: upper and lower
// case, a dot at the end, the default port of the scheme, letters beyond ASCII and their punycode,
// and the short and long forms of an IPv6 address. hostOf allocates nothing for a name in lower
// case and ASCII.
//
// A host of more than longestHost bytes is returned as it is written: a redirect may lead to any
// name, and computing the punycode of a name takes a time that grows with the square of its length.
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
		h.port = port // net.Dial also ignores zeros at the beginning
	}
	if h.scheme == "http" && h.port == "80" || h.scheme == "https" && h.port == "443" {
		h.port = ""
	}
	return h
}

// String returns h as the beginning of a URL, such as "http://db:8080". If h is too long, the text
// is longer than longestHost too.
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
	u := url.URL{Scheme: h.scheme, Host: name} // its String escapes control characters
	return u.String()
}

// longestHost is how many bytes the parts of a host may have if the host is stored. No name that
// can be looked up is longer, but a redirect may lead to a name of any length.
const longestHost = 1024

// tooLong reports whether h is too long to be stored.
func (h host) tooLong() bool { return len(h.scheme)+len(h.name)+len(h.port) > longestHost }

// clone returns a copy of h that may be stored: it does not keep the text of the URL in memory.
func (h host) clone() host {
	h.scheme, h.name, h.port = strings.Clone(h.scheme), strings.Clone(h.name), strings.Clone(h.port)
	return h
}

// ipv6 reads an IPv6 address. A name without a colon is not one, and netip.ParseAddr would allocate
// an error for it.
func ipv6(name string) (addr netip.Addr, ok bool) {
	if !strings.Contains(name, ":") {
		return addr, false
	}
	addr, err := netip.ParseAddr(name)
	return addr, err == nil
}

// punycode returns a name as net/http writes the name into the header Host.
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
