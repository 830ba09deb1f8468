package sse_test

import (
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

// formats lists the streams of web-platform-tests for EventSource, under the names of their tests,
// and the events that the tests expect. The rows without such a name check the same rules.
var formats = []struct {
	name, stream string
	events       []string // each event as name|ID|data
}{
	{"event-data", "data:msg\ndata: msg\n\n:\nfalsefield:msg\n\nfalsefield:msg\nData:data\n\ndata\n\ndata:end\n\n",
		[]string{"||msg\nmsg", "||", "||end"}},
	{"eventsource-onmessage", "data: data\n\n", []string{"||data"}},
	{"format-bom", "\ufeffdata:1\n\n\ufeffdata:2\n\ndata:3\n\n", []string{"||1", "||3"}},
	{"format-bom-2", "\ufeff\ufeffdata:1\n\ndata:2\n\ndata:3\n\n", []string{"||2", "||3"}},
	{"a BOM alone", "\ufeff", nil},
	{"a BOM on a line of its own", "\ufeff\ndata:1\n\n", []string{"||1"}},
	{"half a BOM", "\xef\xbb", nil},
	{"half a BOM before a field", "\xef\xbbdata:1\n\ndata:2\n\n", []string{"||2"}},
	{"format-comments", "data:1\r:\x00\n:\r\ndata:2\n:" + long(2048) + "\rdata:3\n:data:fail\r:" + long(2048) + "\ndata:4\n\n",
		[]string{"||1\n2\n3\n4"}},
	{"format-data-before-final-empty-line", "retry:1000\ndata:test1\n\nid:test\ndata:test2\n", []string{"||test1"}},
	{"half a line before its end", "data:test1\n\nid:test\ndata:test2", []string{"||test1"}},
	{"format-field-data", "data:\n\ndata\ndata\n\ndata:test\n\n", []string{"||", "||\n", "||test"}},
	{"format-field-event", "event:test\ndata:x\n\ndata:x\n\n", []string{"test||x", "||x"}},
	{"format-field-event-empty", "event: \ndata:data\n\n", []string{"||data"}},
	{"field-name-event", "event: testevent\ndata: d\n\n", []string{"testevent||d"}},
	{"format-field-id-3, the ID persists, changes and persists", "id: 1\ndata: 1\n\ndata: 2\n\nid: 2\ndata:3\n\ndata:4\n\n", []string{"|1|1", "|1|2", "|2|3", "|2|4"}},
	{"format-field-id-3, the ID is reset with a colon", "id: 1\ndata: 1\n\nid:\ndata:2\n\ndata:3\n\n", []string{"|1|1", "||2", "||3"}},
	{"format-field-id-3, the ID is reset without a colon", "id: 1\ndata: 1\n\nid\ndata:2\n\ndata:3\n\n", []string{"|1|1", "||2", "||3"}},
	{"format-field-parsing", "data:\x00\ndata:  2\rData:1\ndata\x00:2\ndata:1\r\x00data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
		[]string{"||\x00\n 2\n1\n3\n\n4"}},
	{"format-field-unknown", "data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n", []string{"||test\n\ntest"}},
	{"format-leading-space", "data:\ttest\rdata: \ndata:test\n\n", []string{"||\ttest\n\ntest"}},
	{"format-newlines", "data:test\r\ndata\ndata:test\r\n\r\n", []string{"||test\n\ntest"}},
	{"format-null-character", "data:\x00\n\n", []string{"||\x00"}},
	{"UTF-8 that is cut off is unchanged", "data:\xe2\x80\n\n", []string{"||\xe2\x80"}},
	{"CR alone", "data:1\r\rdata:2\r\r", []string{"||1", "||2"}},
	{"CR, CRLF", "data:1\r\r\ndata:2\r\n\r", []string{"||1", "||2"}},
	{"LF, CR is two lines", "data:1\n\rdata:2\n\n", []string{"||1", "||2"}},
	{"an event without data is dropped", "event: x\n\ndata: 1\n\n", []string{"||1"}},
	{"a name holds for one event", "event: x\n\nevent: y\nevent: z\ndata: 1\n\n", []string{"z||1"}},
	{"colons in a value", "data::a:b\nid: :\n\n", []string{"|:|:a:b"}},
	{"no bytes", "", nil},
	{"blank lines", "\n\n\r\r\n\n", nil},
}

// bytesOf returns the events in a stream.
func bytesOf(t *testing.T, stream string, reader func(string) *http.Response) (events []string) {
	t.Helper()
	body := reader(stream).Body
	for e, err := range sse.Read(body, 0) {
		require.NoError(t, err)
		events = append(events, e.Name+"|"+e.ID+"|"+string(e.Data))
	}
	return events
}

func TestFormat(t *testing.T) {
	for _, tt := range formats {
		for piece, body := range map[string]func(string) *http.Response{
			"whole": func(s string) *http.Response { return &http.Response{Body: &closer{Reader: strings.NewReader(s)}} },
			"byte by byte": func(s string) *http.Response {
				return &http.Response{Body: &closer{Reader: iotest.OneByteReader(strings.NewReader(s))}}
			},
			"with its end": func(s string) *http.Response {
				return &http.Response{Body: &closer{Reader: iotest.DataErrReader(strings.NewReader(s))}}
			},
		} {
			t.Run(tt.name+"/"+piece, func(t *testing.T) {
				assert.Equal(t, tt.events, bytesOf(t, tt.stream, body))
			})
		}
	}
}

// The rows are the tests of web-platform-tests about Last-Event-ID. If a request has no ID, the
// server sends the ID of the row. Otherwise it sends the ID of the request as data.
func TestLastEventIDs(t *testing.T) {
	long := long(255)
	const hello = "retry: 200\ndata: hello\n\n"
	for _, tt := range []struct {
		name, id string
		sent     string   // the Last-Event-ID of the later requests
		events   []string // the events of three connections, before the 204
	}{
		{"format-field-id", "…", "…", []string{"… hello", "… …"}},
		// A browser gets the event … twice. Stream skips the second event, because its ID and data are
		// the same.
		{"format-field-id-2", "…", "…", []string{"… hello", "… …"}},
		{"format-field-id-null, two", "\x00\x00", "", []string{"hello", "hello", "hello"}},
		{"format-field-id-null, at the end", "x\x00", "", []string{"hello", "hello", "hello"}},
		{"format-field-id-null, at the start", "\x00x", "", []string{"hello", "hello", "hello"}},
		{"format-field-id-null, inside", "x\x00x", "", []string{"hello", "hello", "hello"}},
		{"format-field-id-null, after a space", " \x00", "", []string{"hello", "hello", "hello"}},
		{"eventsource-cross-origin-preflight, safe", "abc", "abc", []string{"abc hello", "abc abc"}},
		{"eventsource-cross-origin-preflight, long", long, long, []string{long + " hello", long + " " + long}},
		{"eventsource-cross-origin-preflight, unsafe", "e5p3n<3k0k0s", "e5p3n<3k0k0s", []string{"e5p3n<3k0k0s hello", "e5p3n<3k0k0s e5p3n<3k0k0s"}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var sent []string
			s := &sse.Stream{Policy: patient, Lossy: true, Client: over(roundTrip(func(req *http.Request) (*http.Response, error) {
				id := req.Header.Get("Last-Event-ID")
				sent = append(sent, id)
				a := stream("id: " + tt.id + "\n" + hello)
				switch {
				case len(sent) > 3:
					a = done
				case id != "":
					a = stream("data: " + id + "\n\n")
				}
				return (&script{answers: []answer{a}}).RoundTrip(req)
			}))}
			events, err := collect(s.Events(request(t, "GET")))
			require.NoError(t, err)
			assert.Equal(t, tt.events, events)
			assert.Equal(t, []string{"", tt.sent, tt.sent, tt.sent}, sent)
		})
	}
}

func newJar(t *testing.T) http.CookieJar {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return jar
}

// The rows are the tests of web-platform-tests about connections. A browser connects again even
// without an ID, so these streams are Lossy.
func TestConnections(t *testing.T) {
	mime := func(value string) answer {
		return answer{text: "data: data\n\n", header: []string{"Content-Type", value}}
	}
	for _, tt := range []struct {
		name    string
		set     set
		answers []answer
		events  []string
		sent    int
		took    time.Duration
		err     string
	}{
		{"eventsource-reconnect, 200", lossy, []answer{stream("retry: 2\n"), stream("data: data\n\n"), done}, []string{"data"}, 3, 2 * second, ""},
		{"eventsource-reconnect, reconnection events", lossy, []answer{stream("retry: 2\ndata: ok\n\n"), stream("data: data\n\n"), done},
			[]string{"ok", "data"}, 3, 2 * second, ""},
		{"eventsource-close, events", lossy, []answer{stream("retry: 2\ndata: opened\n\n"), stream("data: reconnected\n\n"), done},
			[]string{"opened", "reconnected"}, 3, 2 * second, ""},
		{"format-data-before-final-empty-line", lossy, []answer{stream("retry:1000\ndata:test1\n\nid:test\ndata:test2\n"), stream("retry:1000\ndata:test1\n\nid:test\ndata:test2\n"), done},
			[]string{"test1", "test1"}, 3, 2 * second, ""},
		{"format-field-retry", lossy, []answer{stream("retry:03000\ndata:x\n\n"), done}, []string{"x"}, 2, 3 * second, ""},
		{"format-field-retry-bogus", lossy, []answer{stream("retry:3000\nretry:1000x\ndata:x\n\n"), done}, []string{"x"}, 2, 3 * second, ""},
		{"format-field-retry-empty", lossy, []answer{stream("retry\ndata:test\n\n"), done}, []string{"test"}, 2, second, ""},
		{"format-mime-bogus", nil, []answer{mime("x bogus")}, nil, 1, 0, "not text/event-stream"},
		{"format-mime-valid-bogus", nil, []answer{mime("text/x-bogus")}, nil, 1, 0, "not text/event-stream"},
		{"format-mime-trailing-semicolon", nil, []answer{mime("text/event-stream;")}, []string{"data"}, 1, 0, ""},
		{"format-utf-8", nil, []answer{{text: "data:ok…\n\n", header: []string{"Content-Type", "text/event-stream;charset=windows-1252"}}}, []string{"ok…"}, 1, 0, ""},
		{"the type in capitals", nil, []answer{mime("Text/Event-Stream ; x")}, []string{"data"}, 1, 0, ""},
		{"request-status-error, 204", nil, []answer{status(204)}, nil, 1, 0, ""},
		{"request-status-error, 205", nil, []answer{status(205)}, nil, 1, 0, "the status is 205"},
		{"request-status-error, 210", nil, []answer{status(210)}, nil, 1, 0, "the status is 210"},
		{"request-status-error, 299", nil, []answer{status(299)}, nil, 1, 0, "the status is 299"},
		{"request-status-error, 404", nil, []answer{status(404)}, nil, 1, 0, "404 Not Found"},
		{"request-status-error, 410", nil, []answer{status(410)}, nil, 1, 0, "410 Gone"},
		{"request-status-error, 503 until the attempts are used up", nil, []answer{status(503)}, nil, 3, 2 * second, "503 Service Unavailable"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			server := &script{answers: tt.answers}
			s := &sse.Stream{Client: over(server), Policy: patient}
			if tt.set != nil {
				tt.set(s)
			}
			began := time.Now()
			events, err := collect(s.Events(request(t, "GET")))
			assert.Equal(t, tt.events, events)
			assert.Len(t, server.sent, tt.sent)
			assert.Equal(t, tt.took, time.Since(began))
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
			for _, req := range server.sent { // request-accept, request-cache-control
				assert.Equal(t, "text/event-stream", req.Header.Get("Accept"))
				assert.Equal(t, "no-cache", req.Header.Get("Cache-Control"))
			}
		})
	}
	for name, jar := range map[string]http.CookieJar{"enabled": newJar(t), "disabled": nil} {
		bubble(t, "request-credentials, "+name, func(t *testing.T) {
			cookie := func(data string, header ...string) answer {
				return answer{text: "retry: 200\n" + data, header: append([]string{"Set-Cookie", "a=COOKIE"}, header...)}
			}
			server := &script{answers: []answer{cookie(event(1, "first")), cookie(event(2, "second")), cookie("data: 2\n\n", "Content-Type", "stop")}}
			client := over(server)
			client.Jar = jar
			events, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(request(t, "GET")))
			require.ErrorContains(t, err, `the Content-Type is "stop"`)
			assert.Equal(t, []string{"1 first", "2 second"}, events)
			assert.Equal(t, []string{"", "1", "2"}, server.ids())
			assert.Empty(t, server.sent[0].Cookies())
			assert.Equal(t, jar != nil, len(server.sent[1].Cookies()) == 1)
		})
	}
	t.Run("eventsource-request-cancellation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := &script{answers: []answer{{before: second, text: "retry:1000\ndata:abc\n\n"}}}
			tr := &retryhttp.Transport{Base: server}
			s := &sse.Stream{Client: &http.Client{Transport: tr}, Policy: patient}
			ctx, cancel := contextWithin(t, second/2)
			defer cancel()
			events, err := collect(s.Events(request(t, "GET").WithContext(ctx)))
			require.Error(t, err)
			assert.Empty(t, events)
			assert.Len(t, server.sent, 1)
		})
	})
}
