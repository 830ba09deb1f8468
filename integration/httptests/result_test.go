package httptests

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp"
)

// The body of a 503 takes longer than Result reads. gzhttp has a pool of decoders, and its bodies
// must not be closed during a Read: the Read would panic, or read the answer to another request.
func TestResultOfAClientThatDecodes(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	text := encoder.EncodeAll([]byte("the database is down"), nil)
	goOn := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(text[:len(text)/2])
		assert.NoError(t, http.NewResponseController(w).Flush())
		<-goOn
		_, _ = w.Write(text[len(text)/2:])
	}))
	defer server.Close()
	defer close(goOn)
	client := &http.Client{Transport: gzhttp.Transport(http.DefaultTransport), Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var failed *retryhttp.StatusError
	_, err = retryhttp.Result(client.Get(server.URL))
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, http.StatusServiceUnavailable, failed.StatusCode)
}
