package printable_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/internal/printable"
)

func TestMethod(t *testing.T) {
	long := strings.Repeat("M", 1024)
	for method, want := range map[string]string{"": "GET", "PURGE": "PURGE", long: long, long + "M": long + "...", "A\nB": "A; B"} {
		assert.Equal(t, want, printable.Method(method))
	}
}

func TestURL(t *testing.T) {
	long := strings.Repeat("a", 1024)
	for text, want := range map[string]string{
		"https://user:secret@example.test:8080/orders?token=secret#top": "https://example.test:8080/orders",
		"https://example.test/a%2Fb/%C3%A9":                             "https://example.test/a%2Fb/%C3%A9",
		"https://example.test":                                          "https://example.test",
		"https://example.test/" + long[1:]:                              "https://example.test/" + long[1:],
		"https://example.test/" + long:                                  "https://example.test/" + long[1:] + "...",
		"https://" + long + "/":                                         "https://" + long + "/",
		"https://" + long + ".test/":                                    "https://" + long + ".../",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, want, printable.URL(u))
	}
}
