//go:build linux || darwin

package retryhttp_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp"
)

// forbidden returns a string of 9 MB that begins with start, repeated up to 128
// bytes. The memory behind those cannot be read: a single byte too many is a fault,
// so that reading such a header costs what reading a short one costs.
func forbidden(t *testing.T, start string) string {
	const readable, length = 128, 9_000_000
	page := os.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, page+length, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, syscall.Munmap(memory)) })
	copy(memory[page-readable:page], strings.Repeat(start, readable/len(start)+1))
	require.NoError(t, syscall.Mprotect(memory[page:], syscall.PROT_NONE))
	return unsafe.String(&memory[page-readable], length)
}

// faults reports whether read reads what it must not.
func faults(read func()) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	read()
	return false
}

// Of what a peer says, the first 128 bytes are read, and the first 8 elements.
func TestHowMuchOfAHeaderIsRead(t *testing.T) {
	require.True(t, faults(func() { _ = strings.Clone(forbidden(t, "1")) }), "the test sees a byte too many")

	for _, start := range []string{"1", "9", ",", "0,", ",1", `r=0;t=9,`, ";", `"a";r=0;t=9`, "=", " ", "1.", "Sun, 22 Nov 2026 12:00:00 GMT,", "true", "false"} {
		long := forbidden(t, start)
		for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms", "Ratelimit", "Ratelimit-Remaining", "Ratelimit-Reset",
			"X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", "X-Should-Retry", "Stripe-Should-Retry", "Date", "Age"} {
			for _, others := range []http.Header{{}, {"Retry-After": {"Sun, 22 Nov 2026 12:00:00 GMT"}}, {"X-Ratelimit-Reset": {"7"}}, {"X-Ratelimit-Remaining": {"0"}}} {
				for _, values := range [][]string{{long, long}, append(make([]string, 200), long[128:])} {
					others[name] = values
					resp := &http.Response{StatusCode: 429, Header: others}
					assert.False(t, faults(func() { retryhttp.AdviceOf(resp); retryhttp.VendorAdvice(resp) }), "%s: %s...", name, start)
				}
			}
		}
	}

	// What a proxy answers to CONNECT.
	req := &http.Request{URL: &url.URL{Scheme: "https"}}
	assert.False(t, faults(func() { assert.Error(t, retryhttp.Check(req, nil, errors.New(forbidden(t, "Bad Gateway")))) }))
}
