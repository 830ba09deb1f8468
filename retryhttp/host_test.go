package retryhttp

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHostOf(t *testing.T) {
	seen := map[host]string{}
	of := func(text string) host {
		u, err := url.Parse(text)
		require.NoError(t, err)
		return hostOf(u)
	}
	for _, same := range [][]string{
		{"http://a.test/", "http://A.Test/b?c", "http://a.test:80/", "http://a.test:/", "http://a.test:080/", "http://a.test./", "HTTP://A.TEST.:80", "http://user@a.test"},
		{"https://a.test/", "https://a.test:443/"},
		{"http://a.test:443/", "http://a.test.:443"},
		{"https://a.test:80/"},
		{"http://a.test:0/"},
		{"http://a.test:08080/", "http://a.test:8080/"},
		{"http://b.a.test/"},
		{"http://[::1]/", "http://[0:0:0:0:0:0:0:1]:80/", "http://[::0001]"},
		{"https://[::1]"},
		{"http://[::1]:8080/", "http://[0::1]:8080/"},
		{"http://[fe80::1%25en0]/", "http://[FE80:0::1%25en0]/"},
		{"http://[fe80::1%25en1]/"},
		{"http://[fe80::1]/"},
		{"http://127.0.0.1/", "http://127.0.0.1:80"},
		{"http://127.1/"}, // what it means is for a resolver to say
		{"http://2130706433/"},
		{"http://[::ffff:127.0.0.1]/"},
		{"http://bücher.test/", "http://BÜCHER.test:80", "http://xn--bcher-kva.test/", "http://b%C3%BCcher.test", "http://bücher.test.:", "http://XN--BCHER-KVA.TEST./"},
		{"http://bu\u0308cher.test"}, // UTS 46 maps these, punycode does not
		{"http://bücher。test"},
		{"http://bücher.test:8080", "http://xn--bcher-kva.test:8080"},
		{"http://bucher.test/"},
		{""},
	} {
		for _, text := range same {
			assert.Equal(t, of(same[0]), of(text), text)
			other, known := seen[of(text)]
			assert.False(t, known && other != same[0], "%s is %s", text, other)
			seen[of(text)] = same[0]
		}
	}
	for _, text := range []string{"https://a.test:443/", "http://a.test.:8080", "http://[0:0::1]:80/", "http://127.0.0.1"} {
		u, _ := url.Parse(text)
		assert.Zero(t, testing.AllocsPerRun(100, func() { hostOf(u) }), text)
	}
	var ideographs strings.Builder // the time for their punycode grows with the square of their number
	for r := range 10_000 {
		ideographs.WriteRune(rune(0x4e00 + r))
	}
	var all targets
	for _, name := range []string{ideographs.String() + ".test", strings.Repeat("X", longestHost+1)} {
		long := &url.URL{Scheme: "http", Host: name}
		assert.True(t, hostOf(long).tooLong())
		assert.Zero(t, testing.AllocsPerRun(10, func() { hostOf(long) }), "no punycode is computed for a long name")
		assert.Zero(t, testing.AllocsPerRun(10, func() { all.budgetOf(long) }), "a long name is not copied")
	}
	for _, port := range []string{"", ":8080", ":8081"} {
		name := strings.Repeat("x", longestHost-len("https")-len(port)+1)
		b, _ := all.budgetOf(&url.URL{Scheme: "https", Host: name + port})
		assert.Equal(t, "all other targets", b.Name, "a host that is too long by a byte has no Budget of its own")
	}
	for _, name := range []string{"\u00fc b", "\u00fc/c", "\u00fc\x00"} { // these names cannot be sent
		assert.Equal(t, host{scheme: "http", name: name}, hostOf(&url.URL{Scheme: "http", Host: name}))
	}
}
