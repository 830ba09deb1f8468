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

// A host is the target of HTTP requests. It consists of a scheme, a name or an address, and a port.
type host struct {
	scheme, name string
	addr         netip.Addr // an IPv6 address; then `name` is ""
	port         string     // "": the default port of the scheme
}

// hostOf returns the host of a URL. All spellings of a host give the same result. The spellings may
// differ in upper case, a dot at the end, the default port, punycode, and the short and long form
// of an IPv6 address. For an ASCII name in lower case, hostOf allocates nothing.
//
// A host of more than longestHost bytes is returned as it is written. A redirect may lead to such a
// name, and the time to compute its punycode grows with the square of its length.
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
		h.port = port // net.Dial also ignores leading zeros
	}
	if h.scheme == "http" && h.port == "80" || h.scheme == "https" && h.port == "443" {
		h.port = ""
	}
	return h
}

// String returns h as the beginning of a URL, such as "http://db:8080". The text is longer than the
// fields of h together. So if h is too long to be stored, the text is too long for a retry.Budgets.
func (h host) String() string {
	name := h.name
	if h.addr.IsValid() {
		name = "[" + h.addr.String() + "]"
	}
	if h.port != "" {
		name += ":" + h.port
	}
	u := url.URL{Scheme: h.scheme, Host: name} // url.URL.String escapes control characters
	return u.String()
}

// longestHost is the largest number of bytes of a host that is stored. Names in DNS are shorter,
// but a redirect may lead to a name of any length.
const longestHost = 1024

// hasLongHost reports whether the host of req is longer than longestHost. The field Host of req
// replaces the host of the URL. A reverse proxy may have got it from a client.
func hasLongHost(req *http.Request) bool {
	return len(req.Host) > longestHost || req.URL != nil && len(req.URL.Host) > longestHost
}

// tooLong reports whether h is too long to be stored.
func (h host) tooLong() bool { return len(h.scheme)+len(h.name)+len(h.port) > longestHost }

// The method `clone` returns a copy of h that may be stored. The copy does not keep the text of the
// URL in memory.
func (h host) clone() host {
	h.scheme, h.name, h.port = strings.Clone(h.scheme), strings.Clone(h.name), strings.Clone(h.port)
	return h
}

// ipv6 reads an IPv6 address. It first looks for a colon, because netip.ParseAddr allocates an
// error for a name that is not an address.
func ipv6(name string) (addr netip.Addr, ok bool) {
	if !strings.Contains(name, ":") {
		return addr, false
	}
	addr, err := netip.ParseAddr(name)
	return addr, err == nil
}

// punycode returns a name in the form that net/http writes into the header Host.
func punycode(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return name
	}
	var sent bytes.Buffer
	req := http.Request{URL: &url.URL{Host: name}}
	_ = req.Write(&sent)
	_, header, _ := strings.Cut(sent.String(), "\r\nHost: ")
	host, _, _ := strings.Cut(header, "\r\n")
	return cmp.Or(host, name) // `host` is empty if net/http refuses to send the name
}
