package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func typed(media string, body io.Reader) *http.Response {
	return responseWith(200, body, "Content-Type", media)
}

func streamOf(text string) *http.Response {
	return typed("text/event-stream; charset=utf-8", iotest.OneByteReader(strings.NewReader(text)))
}

// If a body breaks off within the limit, the attempt has failed, and is retried if the request
// allows a retry. The caller reads the body of the last attempt up to the byte at which it breaks
// off.
func TestWholeBody(t *testing.T) {
	ofLength := func(n int64, body io.Reader) *http.Response {
		resp := responseWith(200, body)
		resp.ContentLength = n
		return resp
	}
	for _, tt := range []struct {
		name   string
		method string
		limit  int64
		first  *http.Response
		sent   int
		text   string
		broken bool // the caller's Read returns the error
	}{
		{"as long as the limit", "GET", 5, responseWith(200, strings.NewReader("first")), 1, "first", false},
		{"longer", "GET", 4, responseWith(200, strings.NewReader("first")), 1, "first", false},
		{"empty", "GET", 4, responseWith(200, strings.NewReader("")), 1, "", false},
		{"no body", "GET", 4, responseWith(200, http.NoBody), 1, "", false},
		{"broken at the limit", "GET", 3, responseWith(200, breaks("fir", errReset)), 2, "second", false},
		{"broken after the limit", "GET", 2, responseWith(200, breaks("fir", errReset)), 1, "fir", true},
		{"broken, and no limit", "GET", math.MaxInt64, responseWith(200, breaks("fir", errReset)), 2, "second", false},
		{"broken, and a limit of 0", "GET", 0, responseWith(200, breaks("fir", errReset)), 1, "fir", true},
		{"broken, and a negative limit", "GET", -1, responseWith(200, breaks("fir", errReset)), 1, "fir", true},
		{"broken, and a POST", "POST", 100, responseWith(200, breaks("fir", errReset)), 1, "fir", true},
		{"broken, and the Content-Length is above the limit", "GET", 100, ofLength(101, breaks("fir", errReset)), 1, "fir", true},
		{"broken, and the Content-Length is below the limit", "GET", 100, ofLength(1, breaks("fir", errReset)), 2, "second", false},
		{"a stream of events", "GET", 100, typed("Text/Event-Stream", breaks("data", errReset)), 1, "data", true},
		{"a connection", "GET", 100, responseWith(101, breaks("hello", errReset)), 1, "hello", true},
		{"a byte after 99 reads without one", "GET", 100, responseWith(200, late(99)), 1, "\x00", false},
		{"no byte in 100 reads", "GET", 100, responseWith(200, late(100)), 2, "second", false},
		{"a response that Check retries", "GET", 100, responseWith(503, breaks("sorry", errReset)), 2, "second", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := script(tt.first, textResponse(200, "second"))
			tr := &retryhttp.Transport{Base: base, Check: retryhttp.WholeBody(nil, tt.limit), Policy: retry.Policy{MaxAttempts: 3}}
			resp := send(t, tr, request(t, tt.method))
			text, err := io.ReadAll(resp.Body)
			assert.Equal(t, tt.text, string(text))
			assert.Equal(t, tt.broken, err == errReset, "%v", err)
			assert.Len(t, base.sent, tt.sent)
			require.NoError(t, resp.Body.Close())
		})
	}
}

// A 304 may have the Content-Length of the body that it does not have. Over HTTP/2, net/http then
// returns a body that breaks off.
func TestNoBodyBreaksOff(t *testing.T) {
	header := append([]byte{0x0f, 31 - 15, 16}, "application/json"...) // Content-Type
	header = append(header, 0x0f, 28-15, 1, '9')                       // Content-Length
	for _, tt := range []struct {
		name   string
		status byte // a field ":status" of the static table of HPACK
		check  retryhttp.CheckFunc
	}{
		{"304, WholeBody", 0x80 | 11, retryhttp.WholeBody(nil, 100)},
		{"304, LLM", 0x80 | 11, retryhttp.LLM(retry.Policy{}).Check},
		{"204, WholeBody", 0x80 | 9, retryhttp.WholeBody(nil, 100)},
		{"204, LLM", 0x80 | 9, retryhttp.LLM(retry.Policy{}).Check},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := 0
			tr := &retryhttp.Transport{Check: tt.check, Policy: retry.Policy{MaxAttempts: 3}, Base: http2Server(t, func(c h2conn, stream uint32) {
				sent++
				c.frame(0x1, 0x5, stream, append([]byte{tt.status}, header...))
			})}
			require.NoError(t, send(t, tr).Body.Close())
			assert.Equal(t, 1, sent)
		})
	}
}

// The body of a success of CONNECT is a connection, so a Check must not wait for its end.
func TestWholeBodyOfATunnel(t *testing.T) {
	for status, broken := range map[int]bool{200: false, 299: false, 302: true} {
		resp := responseWith(status, breaks("hello", errReset))
		resp.Request = request(t, "CONNECT")
		err := retryhttp.WholeBody(nil, 99)(resp.Request, resp, nil)
		assert.Equal(t, broken, errors.Is(err, errReset), status)
	}
}

// If the context of the request is done, the end of a body of unknown length does not prove that
// the body is complete.
func TestWholeBodyAtTheDeadline(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errReset)
	check := retryhttp.WholeBody(nil, 100)
	req := request(t, "GET").WithContext(ctx)
	assert.ErrorIs(t, check(req, responseWith(200, strings.NewReader("half")), nil), errReset)
	known := responseWith(200, strings.NewReader("whole"))
	known.ContentLength = 5
	assert.NoError(t, check(req, known, nil))
	assert.NoError(t, check(nil, responseWith(200, strings.NewReader("whole")), nil))
}

// The function `judge` gets the events of the stream according to the HTML standard, in whatever
// pieces the stream arrives. The caller reads the whole stream.
func TestFirstEvent(t *testing.T) {
	filler := func(size int) string { return ":" + strings.Repeat("x", size-2) + "\n" }
	const bad = "event: error\ndata: bad\n\n"
	for _, tt := range []struct {
		name, stream string
		seen         []string
		failure      string
	}{
		{"an event does not inherit the name of the event before", "event: more\ndata: 1\n\ndata: a\n\n", []string{"more:1", ":a"}, ""},
		{"an error after more", "event: more\ndata: 1\n\n" + bad, []string{"more:1", "error:bad"}, "judged: bad"},
		{"an error after an event", "data: a\n\n" + bad, []string{":a"}, ""},
		{"CRLF", strings.ReplaceAll(bad, "\n", "\r\n"), []string{"error:bad"}, "judged: bad"},
		{"CR", strings.ReplaceAll(bad, "\n", "\r"), []string{"error:bad"}, "judged: bad"},
		{"CR, CRLF and LF", "event: more\r\ndata: 1\r\rdata: 2\rdata: 3\n\r\n", []string{"more:1", ":2\n3"}, ""},
		{"a comment", ": hello\n\n:\n" + bad, []string{"error:bad"}, "judged: bad"},
		{"a byte order mark", "\ufeff" + bad, []string{"error:bad"}, "judged: bad"},
		{"a byte order mark that is not at the beginning", "\n\ufeffdata: a\ndata: b\n\n", []string{":b"}, ""},
		{"an event without data", "event: error\n\ndata: a\n\n", []string{":a"}, ""},
		{"an event with empty data", "data\n\n", []string{":"}, ""},
		{"lines of data, with and without a space", "data: a\ndata:b\ndata:  c\n\n", []string{":a\nb\n c"}, ""},
		{"other fields", "id: 7\nretry: 10\nevent: more\ndata: 1\nx\n\ndata: a\n\n", []string{"more:1", ":a"}, ""},
		{"it ends at once", "", nil, "retryhttp: the stream ended before an event was accepted: unexpected EOF"},
		{"it ends in an event", "data: a\n", nil, "retryhttp: the stream ended before an event was accepted: unexpected EOF"},
		{"it ends after more", "event: more\ndata: 1\n\n", []string{"more:1"}, "retryhttp: the stream ended before an event was accepted: unexpected EOF"},
		{"an error that ends at 1 MiB", filler(1<<20-len(bad)) + bad, []string{"error:bad"}, "judged: bad"},
		{"an error that ends later", filler(1<<20-len(bad)+1) + bad, nil, ""},
		{"a first event of more than 1 MiB", "data: " + strings.Repeat("x", 1<<20) + "\n\n", nil, ""},
	} {
		for piece, read := range map[string]func(io.Reader) io.Reader{
			"whole":        func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"with its end": iotest.DataErrReader,
		} {
			t.Run(tt.name+"/"+piece, func(t *testing.T) {
				var seen []string
				resp := typed("text/event-stream", read(strings.NewReader(tt.stream)))
				failure := retryhttp.FirstEvent(nil, func(got *http.Response, event string, data []byte) (bool, error) {
					assert.Same(t, resp, got)
					seen = append(seen, fmt.Sprintf("%s:%s", event, data))
					if event == "error" {
						return true, fmt.Errorf("judged: %s", data)
					}
					return event == "more", nil
				})(request(t, "GET"), resp, nil)
				assert.Equal(t, tt.seen, seen)
				if tt.failure == "" {
					assert.NoError(t, failure)
				} else {
					assert.EqualError(t, failure, tt.failure)
				}
				assert.Equal(t, tt.stream, textOf(t, resp))
			})
		}
	}
}

// A response that `check` refuses is not read. A response that has no content is not read either,
// even if its Body is not http.NoBody, as with net/http over HTTP/2. A body that is not a stream of
// events, or that is compressed, is not read either.
func TestFirstEventOfSomethingElse(t *testing.T) {
	judged, boom := errors.New("judged"), errors.New("boom")
	judge := func(*http.Response, string, []byte) (bool, error) { return false, judged }
	const event = "data: a\n\n"
	answer := func(code int, resp *http.Response, encoding ...string) *http.Response {
		resp.StatusCode, resp.Header["Content-Encoding"] = code, encoding
		return resp
	}
	empty := func() *http.Response { return typed("text/event-stream", http.NoBody) }
	for _, tt := range []struct {
		name, method string
		resp         *http.Response
		err          error
		check        retryhttp.CheckFunc
		judge        func(*http.Response, string, []byte) (bool, error)
		want         error
		read         bool
	}{
		{"no content", "GET", answer(204, empty()), nil, nil, judge, nil, false},
		{"no content, over HTTP/2", "GET", answer(204, streamOf("")), nil, nil, judge, nil, false},
		{"reset content, over HTTP/2", "GET", answer(205, streamOf("")), nil, nil, judge, nil, false},
		{"not modified, over HTTP/2", "GET", answer(304, streamOf("")), nil, nil, judge, nil, false},
		{"a redirect", "GET", answer(307, streamOf("")), nil, nil, judge, nil, false},
		{"no body for HEAD", "HEAD", empty(), nil, nil, judge, nil, false},
		{"no body for HEAD, over HTTP/2", "HEAD", streamOf(""), nil, nil, judge, nil, false},
		{"no body for GET", "GET", empty(), nil, nil, judge, io.ErrUnexpectedEOF, true},
		{"no body for POST, and a 201", "POST", answer(201, empty()), nil, nil, judge, io.ErrUnexpectedEOF, true},
		{"JSON", "GET", typed("application/json", strings.NewReader(event)), nil, nil, judge, nil, false},
		{"no type", "GET", textResponse(200, event), nil, nil, judge, nil, false},
		{"a connection", "GET", answer(101, streamOf(event)), nil, nil, judge, nil, false},
		{"compressed", "GET", answer(200, streamOf(event), "gzip"), nil, nil, judge, nil, false},
		{"compressed, in a second line", "GET", answer(200, streamOf(event), "identity", "gzip"), nil, nil, judge, nil, false},
		{"not compressed", "GET", answer(200, streamOf(event), "Identity"), nil, nil, judge, judged, true},
		{"no judge", "GET", streamOf(event), nil, nil, nil, nil, true},
		{"no judge, and no event", "GET", streamOf(""), nil, nil, nil, io.ErrUnexpectedEOF, true},
		{"no judge, and it breaks", "GET", typed("text/event-stream", breaks("data", errReset)), nil, nil, nil, errReset, true},
		{"100 reads without a byte", "GET", typed("text/event-stream", late(100)), nil, nil, judge, io.ErrNoProgress, true},
		{"no response", "GET", nil, boom, nil, judge, boom, false},
		{"no response, which check accepts", "GET", nil, boom, returns(nil), judge, nil, false},
		{"a status", "GET", answer(503, streamOf(event)), nil, nil, judge, new(retryhttp.StatusError), false},
		{"a status, which check accepts", "GET", answer(503, streamOf(event)), nil, returns(nil), judge, judged, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before io.ReadCloser
			if tt.resp != nil {
				before = tt.resp.Body
			}
			err := retryhttp.FirstEvent(tt.check, tt.judge)(request(t, tt.method), tt.resp, tt.err)
			if _, status := tt.want.(*retryhttp.StatusError); status {
				assert.ErrorAs(t, err, new(*retryhttp.StatusError))
			} else {
				assert.ErrorIs(t, err, tt.want)
			}
			assert.Equal(t, tt.read, tt.resp != nil && before != tt.resp.Body)
		})
	}
}

// Each Check accepts a nil request, and decides as for a GET.
func TestChecksWithoutARequest(t *testing.T) {
	for name, check := range map[string]retryhttp.CheckFunc{
		"Check":      retryhttp.Check,
		"WholeBody":  retryhttp.WholeBody(nil, 100),
		"FirstEvent": retryhttp.FirstEvent(nil, nil),
		"LLM":        retryhttp.LLM(retry.Policy{}).Check,
	} {
		for _, tt := range []struct {
			name   string
			status int
			body   string
		}{
			{"no body", 200, ""},
			{"a stream", 200, "data: a\n\n"},
			{"a 429 without a body", 429, ""},
			{"a 429 with a stream", 429, "data: a\n\n"},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				judged := func(req *http.Request) error {
					var body io.Reader = http.NoBody
					if tt.body != "" {
						body = strings.NewReader(tt.body)
					}
					return check(req, responseWith(tt.status, body, "Content-Type", "text/event-stream"), nil)
				}
				want, got := judged(request(t, "POST")), judged(nil)
				assert.Equal(t, want == nil, got == nil, "%v", got)
				assert.Equal(t, retry.IsPermanent(want), retry.IsPermanent(got))
			})
		}
	}
}
