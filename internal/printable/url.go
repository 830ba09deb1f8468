package printable

import "net/url"

// longest is the largest number of bytes of a host and of a path that URL returns.
const longest = 1 << 10

// URL returns the scheme, the host and the path of u. It leaves out the user, the query and the
// fragment, because they may be secret. A redirect may lead to a host or a path of megabytes, so
// the rest of a long host or path is replaced by "...".
func URL(u *url.URL) string {
	short := url.URL{Scheme: u.Scheme, Host: cut(u.Host), Path: u.Path, RawPath: u.RawPath}
	if len(u.Path) > longest {
		short.Path, short.RawPath = cut(u.Path), ""
	}
	return short.String()
}

// Method returns the method of a request as one line. The server of net/http accepts a method of a
// megabyte, so the rest of a long method is replaced by "...". "" means GET, as in net/http.
func Method(method string) string {
	if method == "" {
		return "GET"
	}
	return Line(cut(method))
}

func cut(text string) string {
	if len(text) > longest {
		return text[:longest] + "..."
	}
	return text
}
