package retryhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var etag = `"v1` + strings.Repeat("x", 124) + `"` // of 128 bytes, the longest that is resumed

// A source is a Base that serves text with a strong ETag, and parts of it. Its
// responses break as the steps say, the last of which is for all others.
type source struct {
	text    string
	chunked bool                             // the length is not known
	cuts    []int                            // how many bytes come before a response breaks; below 0: it does not break
	edit    func(n int, resp *http.Response) // the n-th response, from 1
	sent    []*http.Request
}

func (s *source) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent = append(s.sent, req)
	from, status := 0, 200
	resp := response(200)
	if asked, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes="); ok && req.Header.Get("If-Range") == etag {
		from, _ = strconv.Atoi(strings.TrimSuffix(asked, "-"))
		status = 206
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.text)-1, len(s.text)))
	}
	if from >= len(s.text) && status == 206 {
		status = 416
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(s.text)))
	}
	text := s.text[from:]
	resp.StatusCode, resp.ContentLength = status, int64(len(text))
	resp.Header.Set("Etag", etag)
	if s.chunked {
		resp.ContentLength = -1
	}
	resp.Body = io.NopCloser(strings.NewReader(text))
	if n := min(len(s.sent), len(s.cuts)) - 1; n >= 0 && s.cuts[n] >= 0 && s.cuts[n] <= len(text) {
		resp.Body = broken(text[:s.cuts[n]])
	}
	if s.edit != nil {
		s.edit(len(s.sent), resp)
	}
	return resp, req.Context().Err()
}

// broken is a body that ends as that of net/http does when its connection breaks.
func broken(text string) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF)))
}

// resuming is a policy under which a body that breaks is resumed.
var resuming = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

// download gets the body through a Transport that resumes.
func download(t *testing.T, base http.RoundTripper, p retry.Policy) (string, error) {
	resp := send(t, &retryhttp.Transport{Base: base, Policy: p, Resume: true})
	var text strings.Builder
	_, err := io.Copy(&text, resp.Body) // past the WriteTo of what the source returns
	assert.NoError(t, resp.Body.Close())
	assert.NoError(t, resp.Body.Close(), "again")
	return text.String(), err
}

// A body that breaks is whole in the end, wherever it breaks: here at 500 places,
// with RETRY_LONG at all of them. The first part then breaks in its header. Server and
// client are net/http's, over a pipe.
func TestResumeAtEveryByte(t *testing.T) {
	places, size := 500, 8<<10
	if os.Getenv("RETRY_LONG") != "" {
		places, size = 64<<10, 64<<10
	}
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(i ^ i>>8*31)
	}
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprint("length not known: ", chunked), func(t *testing.T) {
			t.Parallel()
			base := &source{text: string(text), chunked: chunked}
			pipes := piped(1, func(conn net.Conn, req *http.Request) {
				resp, _ := base.RoundTrip(req)
				resp.ProtoMajor, resp.ProtoMinor, resp.Request = 1, 1, req
				if resp.ContentLength < 0 {
					resp.TransferEncoding = []string{"chunked"}
				}
				var text bytes.Buffer
				_ = resp.Write(&text)
				answer := text.Bytes()
				if resp.StatusCode == 206 && len(base.sent) == 2 {
					answer = answer[:base.cuts[0]%bytes.Index(answer, []byte("\r\n\r\n"))]
				}
				_, _ = conn.Write(answer)
			})
			defer pipes.CloseIdleConnections()
			for place := range places + 1 {
				cut := place * len(text) / places
				base.cuts, base.sent = []int{cut, -1}, nil
				got, err := download(t, pipes, retry.Policy{MaxAttempts: 3})
				require.NoError(t, err, cut)
				require.True(t, base.text == got, cut)
				switch {
				case cut < len(text):
					require.Len(t, base.sent, 3)
					require.Equal(t, fmt.Sprintf("bytes=%d-", cut), base.sent[2].Header.Get("Range"))
					require.Equal(t, "identity", base.sent[2].Header.Get("Accept-Encoding"))
				case chunked: // where the length is known, this is the end
					require.Len(t, base.sent, 2)
				default:
					require.Len(t, base.sent, 1)
				}
			}
		})
	}
}

// piped returns an http.Transport whose connections are pipes, each to a server that
// answers so many requests and closes the connection.
func piped(requests int, serve func(net.Conn, *http.Request)) *http.Transport {
	return &http.Transport{DisableKeepAlives: requests == 1, ReadBufferSize: 128 << 10, DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			in := bufio.NewReader(server)
			for range requests {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				serve(server, req)
			}
		}()
		return client, nil
	}}
}

// What a server may answer to a request for the rest, and what is read then: the
// whole, or else a true beginning and why it is not more.
func TestResumeFromALiar(t *testing.T) {
	header := func(name string, values ...string) func(*http.Response) {
		return func(resp *http.Response) { resp.Header[name] = values }
	}
	status := func(status int) func(*http.Response) { return func(resp *http.Response) { resp.StatusCode = status } }
	text := func(text string) func(*http.Response) {
		return func(resp *http.Response) {
			resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		}
	}
	all := func(edits ...func(*http.Response)) func(*http.Response) {
		return func(resp *http.Response) {
			for _, edit := range edits {
				edit(resp)
			}
		}
	}
	const atTheEnd = "416 at the end"
	for _, tt := range []struct {
		name string
		lie  func(*http.Response) // in each 206 that begins at byte 4, or 416 at the end
		want string               // of the error; "": the body is whole
	}{
		{"another ETag", header("Etag", `"v2"`), retryhttp.ErrChanged.Error()},
		{"a weak ETag", header("Etag", `W/"v1"`), retryhttp.ErrChanged.Error()},
		{"no ETag", header("Etag"), retryhttp.ErrChanged.Error()},
		{"two ETags", header("Etag", etag, etag), retryhttp.ErrChanged.Error()},
		{"the whole again", all(status(200), text("0123456789")), retryhttp.ErrChanged.Error()},
		{"the whole of another version", all(status(200), text("ABCDEFGHIJ"), header("Etag", `"v2"`)), retryhttp.ErrChanged.Error()},
		{"from an earlier byte", all(header("Content-Range", "bytes 3-9/10"), text("3456789")), `the Content-Range "bytes 3-9/10" is not what was asked for: the rest from byte 4`},
		{"from a later byte", all(header("Content-Range", "bytes 5-9/10"), text("56789")), `the Content-Range "bytes 5-9/10" is not`},
		{"of another length", header("Content-Range", "bytes 4-10/11"), `the Content-Range "bytes 4-10/11" is not`},
		{"beyond its length", header("Content-Range", "bytes 4-10/10"), `the Content-Range "bytes 4-10/10" is not`},
		{"of no byte", all(header("Content-Range", "bytes 4-3/10"), text("")), `the Content-Range "bytes 4-3/10" is not`},
		{"up to the largest number", header("Content-Range", "bytes 4-9223372036854775807/*"), `the Content-Range "bytes 4-9223372036854775807/*" is not`},
		{"two Content-Ranges", header("Content-Range", "bytes 4-9/10", "bytes 4-9/10"), "206 Partial Content, with 2 Content-Range"},
		{"no Content-Range", header("Content-Range"), "206 Partial Content, with 0 Content-Range"},
		{"several ranges", all(header("Content-Range"), header("Content-Type", "multipart/byteranges; boundary=x")), "with 0 Content-Range"},
		{"another encoding", header("Content-Encoding", "gzip"), `the encoding "gzip"`},
		{"416, and not at the end", all(status(416), header("Content-Range", "bytes */5")), "416 Requested Range Not Satisfiable"},
		{"404", status(404), "404 Not Found"},
		{"304", status(304), "the answer to a request for the rest is 304 Not Modified"},
		{"a redirect", all(status(307), header("Location", "http://elsewhere.test/")), "307 Temporary Redirect"},
		{"no body", func(resp *http.Response) { resp.Body = nil }, "206 Partial Content"},
		{"nothing of what it promises", text(""), "unexpected EOF"},
		{"reads that bring nothing", func(resp *http.Response) {
			resp.Body = late(100)
		}, io.ErrNoProgress.Error()},

		{"a shorter part", all(header("Content-Range", "bytes 4-6/10"), text("456")), ""},
		{"a body shorter than its part", text("456"), ""},
		{"a body longer than its part", all(header("Content-Range", "bytes 4-6/10"), text("456xyz")), ""},
		{"a body longer than the whole", text("456789xyz"), ""},
		{"a shorter part, of a length that is not known", all(header("Content-Range", "bytes 4-6/*"), text("456")), ""},
		{"a length that is not known", header("Content-Range", "bytes 4-9/*"), ""},
		{"the unit in capitals", header("Content-Range", "BYTES 4-9/10"), ""},
		{"identity, said", header("Content-Encoding", "identity"), ""},

		{atTheEnd, func(*http.Response) {}, ""},
		{atTheEnd + " with another ETag", header("Etag", `"v2"`), "416"},
		{atTheEnd + " without a length", header("Content-Range"), "416"},
		{atTheEnd + " with another length", header("Content-Range", "bytes */9"), "416"},
		{atTheEnd + " with two lengths", header("Content-Range", "bytes */10", "bytes */10"), "416"},
	} {
		for _, chunked := range []bool{false, true} {
			cut := 4
			if strings.HasPrefix(tt.name, atTheEnd) {
				cut = 10
			}
			if cut == 10 && !chunked {
				continue // there is no request for more
			}
			bubble(t, fmt.Sprint(tt.name, ", length not known: ", chunked), func(t *testing.T) {
				base := &source{text: "0123456789", cuts: []int{cut, -1}, chunked: chunked}
				base.edit = func(n int, resp *http.Response) {
					if at := resp.Header.Get("Content-Range"); at == "bytes 4-9/10" || at == "bytes */10" && cut == 10 {
						tt.lie(resp)
					}
				}
				got, err := download(t, base, resuming)
				if tt.want == "" {
					require.NoError(t, err)
					assert.Equal(t, base.text, got)
					return
				}
				var e *retryhttp.BrokenError
				require.ErrorAs(t, err, &e)
				assert.True(t, strings.HasPrefix(base.text, got))
				assert.EqualValues(t, len(got), e.Offset)
				if !chunked || tt.name != "of another length" { // which shows at the end
					assert.Equal(t, base.text[:cut], got)
					assert.ErrorContains(t, err, tt.want)
				}
			})
		}
	}
	assert.EqualError(t, &retryhttp.BrokenError{Offset: 4, Err: retryhttp.ErrChanged},
		"retryhttp: the body broke after 4 bytes: the server does not confirm that it still has the same body")
}

// A chunked download that breaks exactly at its end has all its bytes. http.ServeContent
// says so with a 416 that has no ETag. http.FileServer sends no ETag, so its downloads are
// not resumed.
func TestResumeFromNetHTTP(t *testing.T) {
	const text = "hello world"
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	content := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", etag)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	})
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	for _, row := range []struct {
		name    string
		handler http.Handler
		breaks  int
		known   bool // the length
		err     string
	}{
		{"ServeContent with its length, at the end", content, len(text), true, ""},
		{"ServeContent, at the end", content, len(text), false, ""},
		{"ServeContent, in the middle", content, 5, false, ""},
		{"ServeFile, in the middle", files, 5, false, "retryhttp: the body broke after 5 bytes: unexpected EOF (not resumed: no strong ETag)"},
	} {
		bubble(t, row.name, func(t *testing.T) {
			first := true
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				rec := httptest.NewRecorder()
				row.handler.ServeHTTP(rec, req)
				resp := rec.Result()
				if !row.known {
					resp.ContentLength = -1
				}
				if first {
					first, resp.Body = false, broken(text[:row.breaks])
				}
				return resp, nil
			})
			got, err := download(t, base, resuming)
			if row.err == "" {
				require.NoError(t, err)
				assert.Equal(t, text, got)
				return
			}
			assert.EqualError(t, err, row.err)
		})
	}
}

// What is not resumed stays as Base made it, and its error says why it was not.
func TestNotResumed(t *testing.T) {
	type edit = func(*retryhttp.Transport, *http.Request, *http.Response)
	tr := func(set func(*retryhttp.Transport)) edit {
		return func(tr *retryhttp.Transport, _ *http.Request, _ *http.Response) { set(tr) }
	}
	req := func(set func(*http.Request)) edit {
		return func(_ *retryhttp.Transport, req *http.Request, _ *http.Response) { set(req) }
	}
	header := func(name string, values ...string) edit {
		return func(_ *retryhttp.Transport, _ *http.Request, resp *http.Response) { resp.Header[name] = values }
	}
	const noGet, ranged, weak = "the request is no GET without a body", "the request has a Range", "no strong ETag"
	for _, tt := range []struct {
		name   string
		edit   edit
		accept string // the Accept-Encoding that is sent
		whyNot string // "": the error stays as it is
	}{
		{"a Transport without Resume", tr(func(tr *retryhttp.Transport) { tr.Resume = false }), "", ""},
		{"the zero policy", tr(func(tr *retryhttp.Transport) { tr.Policy = retry.Policy{} }), "identity", "the policy does not retry"},
		{"a GET that may not be repeated", tr(func(tr *retryhttp.Transport) { tr.Idempotent = func(*http.Request) bool { return false } }), "identity", "the request may not be repeated"},
		{"a Range that Prepare sets", tr(func(tr *retryhttp.Transport) {
			tr.Prepare = func(req *http.Request, _ int, _ error) error { req.Header.Set("Range", "bytes=0-"); return nil }
		}), "identity", ranged},
		{"what Check does not accept", tr(func(tr *retryhttp.Transport) {
			tr.Check = func(*http.Request, *http.Response, error) error { return retry.Permanent(errors.New("no")) }
		}), "identity", "Check does not accept the response"},
		{"POST", req(func(req *http.Request) { req.Method = "POST"; req.Header.Set("Idempotency-Key", "k") }), "", noGet},
		{"a GET with a body", req(func(req *http.Request) { rewindable(req, "data") }), "identity", noGet},
		{"a Range of the caller", req(func(req *http.Request) { req.Header.Set("Range", "bytes=0-") }), "identity", ranged},
		{"an encoding that the caller asks for", func(_ *retryhttp.Transport, req *http.Request, resp *http.Response) {
			req.Header.Set("Accept-Encoding", "gzip")
			resp.Header.Set("Content-Encoding", "gzip")
		}, "gzip", "Content-Encoding: gzip"},
		{"an encoding", header("Content-Encoding", "br"), "identity", "Content-Encoding: br"},
		{"unpacked by Base", func(_ *retryhttp.Transport, _ *http.Request, resp *http.Response) { resp.Uncompressed = true }, "identity", "Content-Encoding: unpacked by Base"},
		{"a date", func(_ *retryhttp.Transport, _ *http.Request, resp *http.Response) {
			resp.Header = http.Header{"Last-Modified": {"Mon, 02 Jan 2006 15:04:05 GMT"}}
		}, "identity", weak},
		{"a weak ETag", header("Etag", `W/"v1"`), "identity", weak},
		{"a long ETag", header("Etag", `"`+strings.Repeat("x", 127)+`"`), "identity", weak},
		{"half an ETag", header("Etag", `"`), "identity", weak},
		{"two ETags", header("Etag", etag, etag), "identity", weak},
		{"no ranges", header("Accept-Ranges", "none"), "identity", "Accept-Ranges: none"},
		{"another status", func(_ *retryhttp.Transport, _ *http.Request, resp *http.Response) { resp.StatusCode = 203 }, "identity", "the status is 203"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := responseWith(200, broken("hel"))
			answer.Header.Set("Etag", etag)
			base := script(answer)
			tr, req := &retryhttp.Transport{Base: base, Policy: resuming, Resume: true}, request(t, "GET")
			tt.edit(tr, req, answer)
			resp := send(t, tr, req)
			text, err := io.ReadAll(resp.Body)
			assert.Equal(t, "hel", string(text))
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			if tt.whyNot == "" {
				assert.True(t, err == io.ErrUnexpectedEOF, "as it is: %v", err)
			} else {
				assert.EqualError(t, err, "retryhttp: the body broke after 3 bytes: unexpected EOF (not resumed: "+tt.whyNot+")")
			}
			assert.Len(t, base.sent, 1)
			assert.Equal(t, tt.accept, base.sent[0].Header.Get("Accept-Encoding"))
			assert.NoError(t, resp.Body.Close())
		})
	}
	empty := response(200)
	empty.Header.Set("Etag", etag)
	assert.Empty(t, textOf(t, send(t, &retryhttp.Transport{Base: script(empty), Policy: resuming, Resume: true})), "a body that ends with its first Read")
	empty.Body, empty.Header = http.NoBody, http.Header{"Etag": {etag}}
	assert.Equal(t, http.NoBody, send(t, &retryhttp.Transport{Base: script(empty), Policy: resuming, Resume: true}).Body)
}

// Each break is a call of its own under the policy, in which the first attempt is what
// broke, and an attempt has succeeded when its first byte has come.
func TestResumeUnderThePolicy(t *testing.T) {
	bubble(t, "a call for each break", func(t *testing.T) {
		var seen events
		var prepared []string
		budget := &retry.Budget{Size: 9}
		base := &source{text: "0123456789", cuts: []int{4, 0, 2, -1}}
		tr := &retryhttp.Transport{Base: base, Resume: true, Policy: resuming}
		tr.Policy.OnEvent, tr.Policy.Budget = seen.add, budget
		tr.Prepare = func(req *http.Request, attempt int, last error) error {
			prepared = append(prepared, fmt.Sprint(attempt, " ", retryhttp.AttemptOf(req.Context()), " ", req.Header.Get("Range"), " ", last))
			return nil
		}
		start := time.Now()
		req := request(t, "GET")
		assert.Equal(t, "0123456789", textOf(t, send(t, tr, req)))
		assert.Empty(t, req.Header, "the caller's")
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Equal(t, 6, budget.Left())
		assert.Equal(t, []string{"1 1  <nil>", "2 2 bytes=4- unexpected EOF", "3 3 bytes=4- unexpected EOF", "2 2 bytes=6- unexpected EOF"}, prepared)
		var stops []string
		for _, e := range seen.of(retry.CallFinished) {
			stops = append(stops, fmt.Sprint(e.Attempt, " ", e.Reason))
		}
		assert.Equal(t, []string{"1 success", "3 success", "2 success"}, stops)
	})
	second := func(edit func(*source, *http.Response)) func(*retryhttp.Transport, *source) {
		return func(_ *retryhttp.Transport, s *source) {
			s.edit = func(n int, resp *http.Response) {
				if n == 2 {
					edit(s, resp)
				}
			}
		}
	}
	empty := &retry.Budget{Size: 1}
	empty.Take()
	for _, tt := range []struct {
		name   string
		edit   func(*retryhttp.Transport, *source)
		took   time.Duration
		reason retry.Reason // of the end; success: the body is whole
	}{
		{"the attempts are used up", func(_ *retryhttp.Transport, s *source) { s.cuts = []int{4, 0} }, 2 * time.Second, retry.ReasonExhausted},
		{"no budget", func(tr *retryhttp.Transport, _ *source) { tr.Policy.Budget = empty }, 0, retry.ReasonBudget},
		{"a 503 in between", second(func(_ *source, resp *http.Response) { *resp = *asksToWait(503, 5) }), 6 * time.Second, retry.ReasonSuccess},
		{"a 503 that asks for too much", second(func(_ *source, resp *http.Response) { *resp = *asksToWait(503, 500) }), time.Second, retry.ReasonRetryAfter},
		{"a gate that is closed", func(tr *retryhttp.Transport, _ *source) {
			tr.Gate, tr.Policy.MaxRetryAfter = &retryhttp.Gate{Key: func(req *http.Request) string { return req.Header.Get("Range") }}, time.Second
			req := request(t, "GET").WithContext(context.Background()) // that of t ends outside of the bubble
			req.Header.Set("Range", "bytes=4-")
			send(t, &retryhttp.Transport{Base: script(asksToWait(429, 10)), Gate: tr.Gate}, req)
		}, time.Second, retry.ReasonRetryAfter},
		{"a first byte that does not come", second(func(s *source, resp *http.Response) {
			resp.Body = io.NopCloser(stalled{s.sent[1].Context()})
		}), 4 * time.Second, retry.ReasonSuccess},
		{"a body that stalls", func(tr *retryhttp.Transport, s *source) {
			tr.StallTimeout, s.cuts = 3*time.Second, nil
			s.edit = func(n int, resp *http.Response) {
				if n == 1 {
					resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("0123"), stalled{s.sent[0].Context()}))
				}
			}
		}, 4 * time.Second, retry.ReasonSuccess},
		{"a Check that wants 200", func(tr *retryhttp.Transport, _ *source) {
			tr.Check = func(_ *http.Request, resp *http.Response, err error) error {
				if err == nil && resp.StatusCode != 200 {
					return retry.Permanent(errors.New("not 200"))
				}
				return err
			}
		}, time.Second, retry.ReasonPermanent},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := &source{text: "0123456789", cuts: []int{4, -1}}
			tr := &retryhttp.Transport{Base: base, Resume: true, Policy: resuming}
			tr.Policy.AttemptTimeout = 2 * time.Second
			tt.edit(tr, base)
			resp := send(t, tr)
			start := time.Now()
			got, err := io.ReadAll(resp.Body)
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			assert.Equal(t, tt.took, time.Since(start))
			if err == nil {
				assert.Equal(t, base.text, string(got))
				return
			}
			assert.Equal(t, "0123", string(got))
			var e *retryhttp.BrokenError
			require.ErrorAs(t, err, &e)
			assert.EqualValues(t, 4, e.Offset)
			_, again := resp.Body.Read(make([]byte, 1))
			assert.Same(t, err, again)
		})
	}
}

// A break after progress shows a server that works: it takes nothing from a Budget that the
// user has not set, even from an empty one. Without progress it does, so that a download
// under a policy without a limit ends.
func TestResumeUnderTheDefaultBudget(t *testing.T) {
	for _, tt := range []struct {
		name    string
		edit    func(*retryhttp.Transport)
		cuts    []int
		reason  retry.Reason
		emptied bool // by an outage
	}{
		{"a cut each KiB", nil, []int{1 << 10}, retry.ReasonSuccess, false},
		{"a cut each 32 KiB, after an outage", nil, []int{32 << 10}, retry.ReasonSuccess, true},
		{"a cut each byte", nil, []int{1}, retry.ReasonBudget, false},
		{"a cut after the first KiB, and no progress then", nil, []int{1 << 10, 0}, retry.ReasonBudget, false},
		{"a Budget of the user", func(tr *retryhttp.Transport) { tr.Policy.Budget = &retry.Budget{Size: 10} }, []int{1 << 10}, retry.ReasonBudget, false},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := &source{text: strings.Repeat("0123456789abcdef", 1<<16), cuts: tt.cuts}
			tr := &retryhttp.Transport{Base: script(503), Resume: true, Policy: retry.Policy{MaxAttempts: retry.Unlimited}}
			if tt.edit != nil {
				tt.edit(tr)
			}
			if tt.emptied {
				assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(retryhttp.ErrorOf(send(t, tr))))
			}
			tr.Base = base
			got, err := io.ReadAll(send(t, tr).Body)
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			assert.Equal(t, tt.reason == retry.ReasonSuccess, len(got) == len(base.text))
		})
	}
}

// Close ends a Read at once wherever that is, and so does the context of the request.
// In a bubble, a goroutine that is left would fail the test.
func TestResumeClosed(t *testing.T) {
	why := errors.New("shutting down")
	const first, pause, header, firstByte, part = "a Read of the body", "the wait", "the header of the part", "its first byte", "a Read of the part"
	for _, where := range []string{first, pause, header, firstByte, part} {
		for _, how := range []string{"Close", "the context"} {
			bubble(t, how+" in "+where, func(t *testing.T) {
				s := &source{text: "0123456789", cuts: []int{4, -1}}
				s.edit = func(n int, resp *http.Response) {
					rest := func(text string) {
						resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(text), stalled{s.sent[n-1].Context()}))
					}
					switch {
					case n == 1 && where == first:
						rest("0123")
					case n == 2 && where == header:
						<-s.sent[1].Context().Done()
					case n == 2 && where == firstByte:
						rest("")
					case n == 2 && where == part:
						rest("4")
					}
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				resp := send(t, &retryhttp.Transport{Base: s, Resume: true, Policy: resuming}, request(t, "GET").WithContext(ctx))
				start, at := time.Now(), 2*time.Second
				if where == pause {
					at = time.Second / 2
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					time.Sleep(at)
					if how == "Close" {
						assert.NoError(t, resp.Body.Close())
					} else {
						cancel(why)
					}
				}()
				got, err := io.ReadAll(resp.Body)
				assert.Equal(t, at, time.Since(start))
				assert.True(t, strings.HasPrefix(s.text, string(got)))
				if how == "Close" {
					assert.Same(t, http.ErrBodyReadAfterClose, err)
				} else {
					assert.ErrorIs(t, err, context.Canceled)
				}
				<-done
				require.NoError(t, resp.Body.Close())
				_, err = resp.Body.Read(make([]byte, 1))
				assert.Error(t, err)
				cancel(nil)
				for _, req := range s.sent {
					assert.Error(t, req.Context().Err())
				}
			})
		}
	}
	bubble(t, "of what is not resumed", func(t *testing.T) {
		resp := send(t, &retryhttp.Transport{Base: script(200), Resume: true, Policy: resuming})
		require.NoError(t, resp.Body.Close())
		_, err := resp.Body.Read(make([]byte, 1))
		assert.Same(t, http.ErrBodyReadAfterClose, err)
	})
	bubble(t, "before the first Read, and after the end", func(t *testing.T) {
		s := &source{text: "0123456789", cuts: []int{4, -1}}
		tr := &retryhttp.Transport{Base: s, Resume: true, Policy: resuming}
		resp := send(t, tr)
		require.NoError(t, resp.Body.Close())
		_, err := resp.Body.Read(make([]byte, 1))
		assert.Same(t, http.ErrBodyReadAfterClose, err)
		assert.Len(t, s.sent, 1)
		s.sent = nil
		resp = send(t, tr, request(t, "GET").WithContext(foreign{t.Context(), make(chan struct{})}))
		assert.Equal(t, s.text, textOf(t, resp))
		assert.Error(t, s.sent[1].Context().Err())
		require.NoError(t, resp.Body.Close())
	})
}

// foreign is a context that package context does not know: those derived from it each
// have a goroutine until they are canceled.
type foreign struct {
	context.Context
	done chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

// Bodies that keep no more than the contract of a Reader, and are closed once.
func TestResumeReaders(t *testing.T) {
	var bodies []*body
	base := &source{text: "0123456789", cuts: []int{5, -1}}
	wrap := func(wrap func(io.Reader) io.Reader) {
		bodies, base.sent = nil, nil
		base.edit = func(_ int, resp *http.Response) {
			bodies = append(bodies, &body{Reader: wrap(resp.Body)})
			resp.Body = bodies[len(bodies)-1]
		}
	}
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"as they are":                  func(r io.Reader) io.Reader { return r },
		"bytes together with an error": iotest.DataErrReader,
		"a byte at a time":             iotest.OneByteReader,
		"an end that comes too early":  func(r io.Reader) io.Reader { return io.LimitReader(r, 5) },
		"reads that bring nothing": func(r io.Reader) io.Reader {
			n := 0
			return funcs{read: func(p []byte) (int, error) {
				if n++; n%3 > 0 {
					return 0, nil
				}
				return r.Read(p)
			}}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			wrap(reader)
			resp := send(t, &retryhttp.Transport{Base: base, Resume: true, Policy: resuming})
			assert.EqualValues(t, 10, resp.ContentLength)
			n, err := resp.Body.Read(nil)
			assert.Zero(t, n)
			assert.NoError(t, err)
			assert.NoError(t, iotest.TestReader(resp.Body, []byte(base.text)))
			require.NoError(t, resp.Body.Close())
			require.Len(t, bodies, 2)
			for _, body := range bodies {
				assert.True(t, body.closed)
			}
		})
	}
}

// Whatever a Content-Range says, what is read is right: a beginning of the text.
func FuzzContentRange(f *testing.F) {
	for _, value := range []string{
		"bytes 4-9/10", "bytes 4-9/*", "bytes 4-6/10", "bytes 3-9/10", "bytes 4-9/11", "bytes */10", "bytes 4-9/10, bytes 4-9/10", "",
		"bytes=4-9/10", "bytes 4-9", "bytes +4-9/10", "bytes 4-18446744073709551615/*", "bytes 4-999999999999999999/*", "bytes 04-009/010", "bytes 4-009/010", "Bytes 4-4/10",
	} {
		f.Add(value)
	}
	form := regexp.MustCompile(`^(?i:bytes) 4-([0-9]{1,18})/(0*10|\*)$`)
	f.Fuzz(func(t *testing.T, value string) {
		base := &source{text: "0123456789", cuts: []int{4, -1}}
		base.edit = func(n int, resp *http.Response) {
			if n == 2 {
				resp.Header["Content-Range"] = []string{value}
			}
		}
		got, err := download(t, base, retry.Policy{MaxAttempts: 2})
		fits := false
		if m := form.FindStringSubmatch(value); m != nil {
			to, err := strconv.Atoi(m[1])
			fits = err == nil && 4 <= to && to < 10
		}
		if fits {
			require.NoError(t, err)
			assert.Equal(t, base.text, got)
		} else {
			require.Error(t, err)
			assert.Equal(t, "0123", got)
		}
	})
}
