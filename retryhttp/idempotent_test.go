package retryhttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/retryhttp"
)

func TestIdempotent(t *testing.T) {
	for methods, want := range map[string]bool{",GET,HEAD,OPTIONS,TRACE,PUT,DELETE,PROPFIND,REPORT,SEARCH,QUERY": true, "POST,PATCH,CONNECT,get,PURGE,propfind,LOCK,PROPPATCH": false} {
		for method := range strings.SplitSeq(methods, ",") {
			assert.Equal(t, want, retryhttp.Idempotent(&http.Request{Method: method}), method)
			for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
				assert.True(t, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{key: {"k"}}}))
				assert.True(t, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{strings.ToLower(key): {"k"}}}))
				assert.True(t, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{key: nil}}), "a header without a value is not sent")
				for _, none := range []string{"", " "} {
					assert.Equal(t, want, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{key: {none}}}), "an empty key is none")
				}
			}
			assert.Equal(t, want, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{"Idempotency": {"k"}}}))
		}
	}
}
