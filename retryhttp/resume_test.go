package retryhttp_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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

var etag = `"v1` + strings.Repeat("x", 124) + `"` // 128 bytes, the longest ETag for which Resume works

// A source is a Base that serves text as http.ServeContent does, with a strong ETag. The field
// `cuts` says where each response breaks off. Its last element also applies to all further
// responses.
type source struct {
	text    string
	chunked bool                             // the response has no Content-Length
	cuts    []int                            // how many bytes come before a response breaks; below 0: it does not break
	edit    func(n int, resp *http.Response) // changes the n-th response; n starts at 1
	sent    []*http.Request
}

func (s *source) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent = append(s.sent, req)
	rec := httptest.NewRecorder()
	rec.Header().Set("Etag", etag)
	http.ServeContent(rec, req, "", time.Time{}, strings.NewReader(s.text))
	resp := rec.Result()
	if s.chunked {
		resp.ContentLength = -1
	}
	if n := min(len(s.sent), len(s.cuts)) - 1; n >= 0 && s.cuts[n] >= 0 && s.cuts[n] <= rec.Body.Len() {
		resp.Body = io.NopCloser(breaks(rec.Body.String()[:s.cuts[n]], io.ErrUnexpectedEOF))
	}
	if s.edit != nil {
		s.edit(len(s.sent), resp)
	}
	return resp, req.Context().Err()
}

// resuming is a policy with two retries, so a body that breaks is resumed.
var resuming = retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

// download reads a body through a Transport with Resume.
func download(t *testing.T, base http.RoundTripper, p retry.Policy) (string, error) {
	resp := send(t, &retryhttp.Transport{Base: base, Policy: p, Resume: true})
	var text strings.Builder
	_, err := io.Copy(&text, resp.Body) // a WriteTo of the body must not bypass Resume
	assert.NoError(t, resp.Body.Close())
	assert.NoError(t, resp.Body.Close(), "again")
	return text.String(), err
}

// A body that breaks off is completed, wherever it breaks off. The test breaks the body off at 500
// places, and with RETRY_LONG at every byte. In addition, the first response with missing bytes
// breaks off in its header. The client and the server are from net/http, over a pipe. If a body of
// unknown length breaks off at its end, the server answers the request for more with 416.
func TestResumeAtEveryByte(t *testing.T) {
	places, size := 500, 8<<10
	if os.Getenv("RETRY_LONG") != "" {
		places, size = 64<<10, 64<<10
	}
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(text)
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
				cut, sent := place*size/places, 3
				if cut == size { // the end; without a length, a second request finds out that it is the end
					sent = map[bool]int{false: 1, true: 2}[chunked]
				}
				base.cuts, base.sent = []int{cut, -1}, nil
				got, err := download(t, pipes, retry.Policy{MaxAttempts: 3})
				require.NoError(t, err, cut)
				require.True(t, base.text == got, cut)
				require.Len(t, base.sent, sent)
				if last := base.sent[sent-1].Header; sent > 1 {
					require.Equal(t, fmt.Sprintf("bytes=%d-", cut), last.Get("Range"))
					require.Equal(t, "identity", last.Get("Accept-Encoding"))
				}
			}
		})
	}
}

// A server may send a wrong answer to a request for the missing bytes. The caller reads either the
// whole body, or a correct beginning and an error. FuzzContentRange has more wrong answers.
func TestResumeFromALiar(t *testing.T) {
	header := func(name string, values ...string) func(*http.Response) {
		return func(resp *http.Response) { resp.Header[name] = values }
	}
	status := func(status int) func(*http.Response) { return func(resp *http.Response) { resp.StatusCode = status } }
	text := func(text string, edits ...func(*http.Response)) func(*http.Response) {
		return func(resp *http.Response) {
			resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			for _, edit := range edits {
				edit(resp)
			}
		}
	}
	changed, no416 := retryhttp.ErrChanged.Error(), "416 Requested Range Not Satisfiable"
	for _, tt := range []struct {
		name string
		cut  int                  // where the first response breaks; 10: at the end, a break only if the length is unknown
		lie  func(*http.Response) // changes each answer to a request for the bytes from cut on
		want string               // the text of the error; "": the caller gets the whole body
	}{
		{"another ETag", 4, header("Etag", `"v2"`), changed},
		{"a weak ETag", 4, header("Etag", `W/"v1"`), changed},
		{"no ETag", 4, header("Etag"), changed},
		{"two ETags", 4, header("Etag", etag, etag), changed},
		{"the whole body again", 4, text("0123456789", status(200)), changed},
		{"from an earlier byte", 4, text("3456789", header("Content-Range", "bytes 3-9/10")), `the Content-Range "bytes 3-9/10" is not what was asked for: the rest from byte 4`},
		{"another length", 4, header("Content-Range", "bytes 4-10/11"), `the Content-Range "bytes 4-10/11" is not`},
		{"two Content-Ranges", 4, header("Content-Range", "bytes 4-9/10", "bytes 4-9/10"), "206 Partial Content, with 2 Content-Range"},
		{"several ranges", 4, header("Content-Range"), "with 0 Content-Range"},
		{"another encoding", 4, header("Content-Encoding", "gzip"), `the encoding "gzip"`},
		{"another encoding in a second line", 4, header("Content-Encoding", "identity", "gzip"), `the encoding "identity,gzip"`},
		{"lines between parts", 4, header("Content-Type", "multipart/byteranges; boundary=x"), "is a multipart/byteranges, whose boundary lines"},
		{"lines between parts, in capitals", 4, header("Content-Type", " Multipart/ByteRanges"), "is a multipart/byteranges"},
		{"lines between parts, with an old media type", 4, header("Content-Type", "multipart/x-byteranges; boundary=x"), "is a multipart/byteranges"},
		{"lines between parts, in quotes", 4, header("Content-Type", `"multipart/byteranges"`), "is a multipart/byteranges"},
		{"lines between parts, with two types in one header", 4, header("Content-Type", "text/plain, multipart/byteranges"), "is a multipart/byteranges"},
		{"lines between parts, after spaces", 4, header("Content-Type", strings.Repeat(" ", 200)+"multipart/byteranges"), "is a multipart/byteranges"},
		{"lines between parts, with a second type after a long one", 4, header("Content-Type", "text/plain; a="+strings.Repeat("b", 200)+", multipart/byteranges"), "is a multipart/byteranges"},
		{"lines between parts, with two headers", 4, header("Content-Type", "text/plain", "multipart/byteranges"), "is a multipart/byteranges"},
		{"416, and not at the end", 4, text("", status(416), header("Content-Range", "bytes */5")), no416},
		{"404", 4, status(404), "404 Not Found"},
		{"304", 4, status(304), "the answer to the Range request is 304 Not Modified"},
		{"no body", 4, func(resp *http.Response) { resp.Body = nil }, "206 Partial Content"},
		{"a body without a byte", 4, text(""), "unexpected EOF"},
		{"100 reads without a byte", 4, func(resp *http.Response) { resp.Body = io.NopCloser(late(100)) }, io.ErrNoProgress.Error()},

		{"a body shorter than its part", 4, text("456"), ""},
		{"a body longer than its part", 4, text("456xyz", header("Content-Range", "bytes 4-6/10")), ""},
		{"a body longer than the whole", 4, text("456789xyz"), ""},
		{"Content-Encoding: identity", 4, header("Content-Encoding", "identity"), ""},
		{"Content-Encoding: identity twice, once empty", 4, header("Content-Encoding", "", "Identity"), ""},
		{"a mail, which has parts of its own", 4, header("Content-Type", "multipart/mixed; boundary=byteranges"), ""},

		{"416 at the end without an ETag, as of http.ServeContent", 10, func(*http.Response) {}, ""},
		{"416 at the end with the ETag", 10, header("Etag", etag), ""},
		{"416 at the end with another ETag", 10, header("Etag", `"v2"`), no416},
		{"416 at the end without a length", 10, header("Content-Range"), no416},
		{"416 at the end with another length", 10, header("Content-Range", "bytes */9"), no416},
		{"416 at the end with two lengths", 10, header("Content-Range", "bytes */10", "bytes */10"), no416},
	} {
		for _, chunked := range []bool{false, true} {
			bubble(t, fmt.Sprint(tt.name, ", length not known: ", chunked), func(t *testing.T) {
				base := &source{text: "0123456789", cuts: []int{tt.cut, -1}, chunked: chunked}
				base.edit = func(n int, resp *http.Response) {
					if n > 1 && (tt.cut == 10 || resp.Header.Get("Content-Range") == "bytes 4-9/10") {
						tt.lie(resp)
					}
				}
				got, err := download(t, base, resuming)
				if tt.want == "" || tt.cut == 10 && !chunked { // there is no request for more bytes
					require.NoError(t, err)
					assert.Equal(t, base.text, got)
					return
				}
				var e *retryhttp.BrokenError
				require.ErrorAs(t, err, &e)
				assert.True(t, strings.HasPrefix(base.text, got))
				assert.EqualValues(t, len(got), e.Offset)
				if !chunked || tt.name != "another length" { // this shows only at the end
					assert.Equal(t, base.text[:tt.cut], got)
					assert.ErrorContains(t, err, tt.want)
				}
			})
		}
	}
	assert.EqualError(t, &retryhttp.BrokenError{Offset: 4, Err: retryhttp.ErrChanged},
		"retryhttp: the body broke after 4 bytes: the server does not confirm that it still has the same body")
}

// A Check may change the request that it gets, for example to write it to a log. This changes
// neither the caller's request nor the request for the missing bytes.
func TestResumeWithACheckThatChangesItsRequest(t *testing.T) {
	base := &source{text: "0123456789", cuts: []int{4, -1}}
	redacts := func(req *http.Request, resp *http.Response, err error) error {
		req.Header.Del("Authorization")
		req.URL.RawQuery = ""
		return retryhttp.Check(req, resp, err)
	}
	var sent []string
	sees := roundTrip(func(req *http.Request) (*http.Response, error) {
		sent = append(sent, req.URL.RawQuery+" "+req.Header.Get("Authorization"))
		return base.RoundTrip(req)
	})
	tr := &retryhttp.Transport{Base: sees, Resume: true, Check: redacts, Policy: resuming}
	req := request(t, "GET")
	req.URL.RawQuery = "signature=1"
	req.Header.Set("Authorization", "secret")
	assert.Equal(t, "0123456789", textOf(t, send(t, tr, req)))
	assert.Equal(t, "signature=1", req.URL.RawQuery)
	assert.Equal(t, []string{"signature=1 secret", "signature=1 secret"}, sent)
}

// If the body breaks off before its first byte, a server may also send the whole body again.
func TestResumeFromTheBeginning(t *testing.T) {
	whole := func(length int64, header, value string) func(*http.Response) {
		return func(resp *http.Response) {
			resp.StatusCode, resp.ContentLength = 200, length
			resp.Header.Del("Content-Range")
			resp.Header.Set(header, value)
		}
	}
	for _, tt := range []struct {
		name    string
		text    string
		chunked bool
		cuts    []int
		again   func(*http.Response) // changes the second response
		sent    int
		want    string // the text of the error; "": the caller gets the whole body
	}{
		{"the whole body", "0123456789", false, []int{0, -1}, whole(10, "Etag", etag), 2, ""},
		{"the whole body, of unknown length", "0123456789", false, []int{0, -1}, whole(-1, "Etag", etag), 2, ""},
		{"the whole body, whose length was not known", "0123456789", true, []int{0, -1}, whole(10, "Etag", etag), 2, ""},
		{"the whole body, which breaks off", "0123456789", false, []int{0, 3, -1}, whole(10, "Etag", etag), 3, ""},
		{"the whole body, which breaks off before its first byte", "0123456789", false, []int{0, 0, -1}, whole(10, "Etag", etag), 3, ""},
		{"an empty body", "", true, []int{0, -1}, whole(0, "Etag", etag), 2, ""},
		{"an empty body of unknown length", "", true, []int{0, -1}, whole(-1, "Etag", etag), 2, ""},
		{"no byte of the whole body", "0123456789", false, []int{0, -1}, func(resp *http.Response) { whole(10, "Etag", etag)(resp); resp.Body = http.NoBody }, 3, ""},
		{"another ETag", "0123456789", false, []int{0, -1}, whole(10, "Etag", `"v2"`), 2, retryhttp.ErrChanged.Error()},
		{"another length", "0123456789", false, []int{0, -1}, whole(9, "Etag", etag), 2, retryhttp.ErrChanged.Error()},
		{"another encoding", "0123456789", false, []int{0, -1}, whole(10, "Content-Encoding", "gzip"), 2, retryhttp.ErrChanged.Error()},
		{"lines between parts", "0123456789", true, []int{0, -1}, whole(10, "Content-Type", "multipart/byteranges; boundary=x"), 2, retryhttp.ErrChanged.Error()},
		{"the whole body with a Content-Range, which means nothing in a 200", "0123456789", true, []int{0, -1}, whole(10, "Content-Range", "items 0-1/2"), 2, ""},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := &source{text: tt.text, cuts: tt.cuts, chunked: tt.chunked, edit: func(n int, resp *http.Response) {
				if n == 2 {
					tt.again(resp)
				}
			}}
			got, err := download(t, base, resuming)
			assert.Len(t, base.sent, tt.sent)
			if tt.want != "" {
				assert.ErrorContains(t, err, tt.want)
				assert.Empty(t, got)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.text, got)
		})
	}
}

// If the missing bytes cannot be fetched, a loop around the request and the reading of its body
// begins the download anew, even if the call for the missing bytes has ended with a permanent error.
func TestADownloadBeginsAnew(t *testing.T) {
	wrong := func(edit func(*http.Response)) func(int, *http.Response) {
		return func(n int, resp *http.Response) {
			if n == 2 {
				edit(resp)
			}
		}
	}
	for _, tt := range []struct {
		name string
		edit func(int, *http.Response)
		as   any
	}{
		{"another ETag", wrong(func(resp *http.Response) { resp.Header.Set("Etag", `"v2"`) }), nil},
		{"the object is gone for a while", wrong(func(resp *http.Response) { resp.StatusCode, resp.Header["Retry-After"] = 404, []string{"30"} }), new(*retryhttp.StatusError)},
		{"a wrong Content-Range", wrong(func(resp *http.Response) { resp.Header.Set("Content-Range", "bytes 0-9/10") }), nil},
	} {
		for name, check := range map[string]retryhttp.CheckFunc{
			"Check": nil, "a Check that wraps": func(req *http.Request, resp *http.Response, err error) error {
				if failure := retryhttp.Check(req, resp, err); failure != nil {
					return fmt.Errorf("download: %w", failure)
				}
				return nil
			},
			"a Check that joins": func(req *http.Request, resp *http.Response, err error) error {
				if failure := retryhttp.Check(req, resp, err); failure != nil {
					return errors.Join(errors.New("download"), failure)
				}
				return nil
			},
		} {
			bubble(t, tt.name+"/"+name, func(t *testing.T) {
				base, runs := &source{text: "0123456789", cuts: []int{5, -1}, edit: tt.edit}, 0
				tr := &retryhttp.Transport{Base: base, Policy: resuming, Resume: true, Check: check}
				var first error
				err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 2}, func(context.Context) error {
					runs++
					resp := send(t, tr)
					got, err := io.ReadAll(resp.Body)
					if err == nil {
						assert.Equal(t, "0123456789", string(got))
					}
					first = cmp.Or(first, err)
					return err
				})
				assert.NoError(t, err)
				assert.Equal(t, 2, runs)
				assert.ErrorContains(t, first, "permanent error after ")
				assert.False(t, retry.IsPermanent(first))
				if tt.as != nil {
					assert.ErrorAs(t, first, tt.as)
					assert.Equal(t, 30*time.Second, retry.RetryAfterOf(first), "the wait that the server has asked for")
				}
				if tt.name == "another ETag" {
					assert.ErrorIs(t, first, retryhttp.ErrChanged)
				}
				if name == "Check" && tt.name == "another ETag" {
					assert.Equal(t, retryhttp.ErrChanged, retry.Unwrap(first), "the error of a plain Check is not wrapped")
				}
			})
		}
	}
}

// If Resume does not apply, the caller gets the body as Base made it, and the error of a Read says
// why Resume does not apply.
func TestNotResumed(t *testing.T) {
	answers := func(edit func(*http.Response)) edit {
		return ofTransport(func(tr *retryhttp.Transport) { edit(tr.Base.(*scripted).steps[0].(*http.Response)) })
	}
	etags := func(values ...string) edit {
		return answers(func(resp *http.Response) { resp.Header["Etag"] = values })
	}
	const noGet, weak = "the request is not a GET without a body", "no strong ETag"
	for _, tt := range []struct {
		name   string
		edit   edit
		accept string // the Accept-Encoding of the request
		whyNot string // "": the error is unchanged
	}{
		{"a Transport without Resume", ofTransport(func(tr *retryhttp.Transport) { tr.Resume = false }), "", ""},
		{"the zero policy", policy(retry.Policy{}), "identity", "the policy does not retry"},
		{"a GET that may not be repeated", idempotent(false), "identity", "the request may not be repeated"},
		{"a Range that Prepare sets", ofTransport(func(tr *retryhttp.Transport) {
			tr.Prepare = func(req *http.Request, _ int, _ error) error { req.Header.Set("Range", "bytes=0-"); return nil }
		}), "identity", "the request has a Range"},
		{"a response that Check does not accept", check(returns(retry.Permanent(errReset))), "identity", "Check does not accept the response"},
		{"POST", ofRequest(func(req *http.Request) { req.Method = "POST"; req.Header.Set("Idempotency-Key", "k") }), "", noGet},
		{"a GET with a body", ofRequest(func(req *http.Request) { rewindable(req, "data") }), "identity", noGet},
		{"an encoding that the caller asks for", func(tr *retryhttp.Transport, req *http.Request) {
			header("Accept-Encoding", "gzip")(tr, req)
			answers(func(resp *http.Response) { resp.Header.Set("Content-Encoding", "gzip") })(tr, req)
		}, "gzip", "Content-Encoding: gzip"},
		{"an encoding that a terminal acts on", answers(func(resp *http.Response) { resp.Header.Set("Content-Encoding", "\u009b31m\u2028") }), "identity", `Content-Encoding: \u009b31m\u2028`},
		{"unpacked by Base", answers(func(resp *http.Response) { resp.Uncompressed = true }), "identity", "Content-Encoding: unpacked by Base"},
		{"no ETag, as from http.FileServer", etags(), "identity", weak},
		{"a weak ETag", etags(`W/"v1"`), "identity", weak},
		{"a long ETag", etags(`"` + strings.Repeat("x", 127) + `"`), "identity", weak},
		{"half an ETag", etags(`"`), "identity", weak},
		{"an ETag without an end", etags(`"v1`), "identity", weak},
		{"two ETags", etags(etag, etag), "identity", weak},
		{"no ranges", answers(func(resp *http.Response) { resp.Header.Set("Accept-Ranges", "none") }), "identity", "Accept-Ranges: none"},
		{"another status", answers(func(resp *http.Response) { resp.StatusCode = 203 }), "identity", "the status is 203"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := script(responseWith(200, breaks("hel", io.ErrUnexpectedEOF), "Etag", etag))
			tr, req := &retryhttp.Transport{Base: base, Policy: resuming, Resume: true}, request(t, "GET")
			tt.edit(tr, req)
			resp := send(t, tr, req)
			text, err := io.ReadAll(resp.Body)
			assert.Equal(t, "hel", string(text))
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			if tt.whyNot == "" {
				assert.True(t, err == io.ErrUnexpectedEOF, "the error is unchanged: %v", err)
			} else {
				assert.EqualError(t, err, "retryhttp: the body broke after 3 bytes: unexpected EOF (not resumed: "+tt.whyNot+")")
			}
			assert.Len(t, base.sent, 1)
			assert.Equal(t, tt.accept, base.sent[0].Header.Get("Accept-Encoding"))
			assert.NoError(t, resp.Body.Close())
		})
	}
	shortest := func(_ int, resp *http.Response) { resp.Header.Set("Etag", `""`) }
	_, err := download(t, &source{text: "hello", cuts: []int{3, -1}, edit: shortest}, retry.Policy{MaxAttempts: 2})
	assert.ErrorIs(t, err, retryhttp.ErrChanged, "the shortest ETag is resumed, and then the source sends another ETag")
	longer := responseWith(200, breaks("hello", io.ErrUnexpectedEOF), "Etag", etag)
	longer.ContentLength = 3
	_, err = io.ReadAll(send(t, &retryhttp.Transport{Base: script(longer), Policy: resuming, Resume: true}).Body)
	assert.Error(t, err, "a body that breaks after its Content-Length")
	empty := response(200, "Etag", etag)
	assert.Empty(t, textOf(t, send(t, &retryhttp.Transport{Base: script(empty), Policy: resuming, Resume: true})), "a body that ends with its first Read")
	empty.Body = http.NoBody
	assert.Equal(t, http.NoBody, send(t, &retryhttp.Transport{Base: script(empty), Policy: resuming, Resume: true}).Body)
}

// Each time the body breaks off, a new call under the policy fetches the missing bytes. Attempt 1
// of this call is the attempt whose body broke. A later attempt succeeds when its first byte
// arrives. If the body breaks off after progress, the server works, so the retry takes nothing from
// the Budget of the target, even if that Budget is empty. A Budget that the user has set is
// charged.
func TestResumeUnderThePolicy(t *testing.T) {
	bubble(t, "a call for each break", func(t *testing.T) {
		var seen events
		var prepared, stops []string
		base := &source{text: "0123456789", cuts: []int{4, 0, 2, -1}}
		tr := &retryhttp.Transport{Base: base, Resume: true, Policy: resuming}
		tr.Policy.OnEvent, tr.Policy.Budget = seen.add, &retry.Budget{Size: 9}
		tr.Prepare = func(req *http.Request, attempt int, last error) error {
			prepared = append(prepared, fmt.Sprint(attempt, " ", retryhttp.AttemptOf(req.Context()), " ", req.Header.Get("Range"), " ", last))
			return nil
		}
		start, req := time.Now(), request(t, "GET")
		assert.Equal(t, "0123456789", textOf(t, send(t, tr, req)))
		assert.Empty(t, req.Header, "the caller's request is unchanged")
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Equal(t, 6, tr.Policy.Budget.Left())
		assert.Equal(t, []string{"1 1  <nil>", "2 2 bytes=4- unexpected EOF", "3 3 bytes=4- unexpected EOF", "2 2 bytes=6- unexpected EOF"}, prepared)
		for _, e := range seen.of(retry.CallFinished) {
			stops = append(stops, fmt.Sprint(e.Attempt, " ", e.Reason))
		}
		assert.Equal(t, []string{"1 success", "3 success", "2 success"}, stops)
	})
	nth := func(nth int, edit func(*source, *http.Response)) edit {
		return ofTransport(func(tr *retryhttp.Transport) {
			s := tr.Base.(*source)
			s.edit = func(n int, resp *http.Response) {
				if n == nth {
					edit(s, resp)
				}
			}
		})
	}
	answers := func(resp *http.Response) edit { return nth(2, func(_ *source, part *http.Response) { *part = *resp }) }
	empties := ofTransport(func(tr *retryhttp.Transport) {
		take(tr.TargetBudget(httptest.NewRequest("GET", "http://example.test/", nil)), 0)
	})
	short, long := "0123456789", strings.Repeat("0123456789abcdef", 4<<10)
	for _, tt := range []struct {
		name   string
		text   string
		cuts   []int
		edit   edit
		took   time.Duration
		reason retry.Reason // the Reason of the last call; ReasonSuccess: the body is complete
	}{
		{"the attempts are used up", short, []int{4, 0}, nil, 2 * time.Second, retry.ReasonExhausted},
		{"a 503 in between", short, nil, answers(asksToWait(503, 5)), 6 * time.Second, retry.ReasonSuccess},
		{"a 503 that asks for too much", short, nil, answers(asksToWait(503, 500)), time.Second, retry.ReasonRetryAfter},
		{"a gate that is closed", short, nil, ofTransport(func(tr *retryhttp.Transport) {
			tr.Gate, tr.Policy.MaxRetryAfter = &retryhttp.Gate{Key: func(req *http.Request) string { return req.Header.Get("Range") }}, time.Second
			req := request(t, "GET").WithContext(context.Background()) // the context of t ends outside of the bubble
			req.Header.Set("Range", "bytes=4-")
			send(t, &retryhttp.Transport{Base: script(asksToWait(429, 10)), Gate: tr.Gate}, req)
		}), time.Second, retry.ReasonRetryAfter},
		{"the first byte does not arrive", short, nil, nth(2, func(s *source, resp *http.Response) {
			resp.Body = io.NopCloser(stalled{s.sent[1].Context()})
		}), 4 * time.Second, retry.ReasonSuccess},
		{"a body that stalls", short, []int{-1}, nth(1, func(s *source, resp *http.Response) {
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("0123"), stalled{s.sent[0].Context()}))
		}), 4 * time.Second, retry.ReasonSuccess},
		{"a Check that wants 200", short, nil, check(func(_ *http.Request, resp *http.Response, err error) error {
			if err == nil && resp.StatusCode != 200 {
				return retry.Permanent(errReset)
			}
			return err
		}), time.Second, retry.ReasonPermanent},

		{"no budget", short, nil, empties, 0, retry.ReasonBudget},
		{"a cut after each KiB", long, []int{1 << 10}, nil, 63 * time.Second, retry.ReasonSuccess},
		{"a cut after each 32 KiB, after an outage", long, []int{32 << 10}, empties, time.Second, retry.ReasonSuccess},
		{"a cut after each byte", long, []int{1}, nil, 11 * time.Second, retry.ReasonBudget},
		{"a cut after a KiB, and then after each byte", long, []int{1 << 10, 1}, nil, 12 * time.Second, retry.ReasonBudget},
		{"a cut after each KiB, and a Budget of the user", long, []int{1 << 10}, ofTransport(func(tr *retryhttp.Transport) { tr.Policy.Budget = &retry.Budget{Size: 10} }), 10 * time.Second, retry.ReasonBudget},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := &source{text: tt.text, cuts: tt.cuts}
			if tt.cuts == nil {
				base.cuts = []int{4, -1}
			}
			tr := &retryhttp.Transport{Base: base, Resume: true, Policy: resuming, StallTimeout: 3 * time.Second}
			tr.Policy.AttemptTimeout = 2 * time.Second
			tt.edit.apply(tr, nil)
			resp := send(t, tr)
			start := time.Now()
			got, err := io.ReadAll(resp.Body)
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			assert.Equal(t, tt.took, time.Since(start))
			assert.True(t, strings.HasPrefix(base.text, string(got)))
			assert.Equal(t, err == nil, len(got) == len(base.text))
			var e *retryhttp.BrokenError
			if errors.As(err, &e) {
				assert.EqualValues(t, len(got), e.Offset)
				_, again := resp.Body.Read(make([]byte, 1))
				assert.Same(t, err, again)
			}
		})
	}
}

// The caller does not get the response of a failed request for missing bytes, so the StatusError
// contains the beginning of its body. Example: S3 says in the body of a 403 that a presigned URL
// has expired.
func TestResumeKeepsTheWords(t *testing.T) {
	const expired = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
	for _, tt := range []struct {
		name    string
		answers func(ctx context.Context, n int) *http.Response
		want    string
	}{
		{"403 of an expired URL", func(context.Context, int) *http.Response { return textResponse(403, expired) }, expired},
		{"the last of two 503", func(_ context.Context, n int) *http.Response { return textResponse(503, fmt.Sprint("answer ", n)) }, "answer 3"},
		{"more than a KiB", func(context.Context, int) *http.Response { return textResponse(403, strings.Repeat("x", 2<<10)) }, strings.Repeat("x", 1<<10)},
		{"a body that hangs", func(ctx context.Context, _ int) *http.Response {
			return responseWith(403, io.MultiReader(strings.NewReader("sor"), stalled{ctx}))
		}, "sor"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := &source{text: "0123456789", cuts: []int{4, -1}}
			s.edit = func(n int, resp *http.Response) {
				if n > 1 {
					*resp = *tt.answers(s.sent[n-1].Context(), n)
				}
			}
			var told *retryhttp.StatusError
			p := resuming
			p.OnEvent = func(_ context.Context, event retry.Event) {
				if errors.As(event.Err, &told) {
					assert.Nil(t, told.Body, "the Read has not set it yet")
				}
			}
			_, err := download(t, s, p)
			var e *retryhttp.StatusError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.want, string(e.Body))
			assert.Same(t, told, e)
		})
	}
}

// If the context of the request ends while a Read waits for bytes, the error says how many bytes
// the caller has read, as for any other end.
func TestResumeAtTheDeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		tag  string
		last error // the end of the body after the deadline; nil: the error of the context
	}{
		"a strong ETag": {`"v1"`, nil},
		"no ETag":       {"", nil},
		"a strong ETag, and a body that seems to be complete": {`"v1"`, io.EOF},
	} {
		bubble(t, name, func(t *testing.T) {
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				end := reads(func(p []byte) (int, error) {
					n, err := stalled{req.Context()}.Read(p)
					return n, cmp.Or(tt.last, err)
				})
				return responseWith(200, io.MultiReader(strings.NewReader("01234"), end), "ETag", tt.tag), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			resp := send(t, &retryhttp.Transport{Base: base, Resume: true, Policy: resuming}, request(t, "GET").WithContext(ctx))
			_, err := io.ReadAll(resp.Body)
			assert.EqualError(t, err, "retryhttp: the body broke after 5 bytes: context deadline exceeded")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			var timeout net.Error
			assert.ErrorAs(t, err, &timeout)
			_, again := resp.Body.Read(make([]byte, 9))
			assert.Equal(t, err, again)
		})
	}
}

// Close and the end of the request's context end a Read at once, wherever the Read waits. The test
// would fail if a goroutine were left, because it runs in a bubble.
func TestResumeClosed(t *testing.T) {
	for _, tt := range []struct {
		where string
		at    time.Duration
		n     int    // the response that hangs
		text  string // the bytes before it hangs; "-": it hangs before its header
	}{
		{"a Read of the body", 2 * time.Second, 1, "0123"},
		{"the wait", time.Second / 2, 0, ""},
		{"the header of the part", 2 * time.Second, 2, "-"},
		{"the first byte of the part", 2 * time.Second, 2, ""},
		{"a Read of the part", 2 * time.Second, 2, "4"},
	} {
		for _, how := range []string{"Close", "the context"} {
			bubble(t, how+" in "+tt.where, func(t *testing.T) {
				s := &source{text: "0123456789", cuts: []int{4, -1}}
				s.edit = func(n int, resp *http.Response) {
					hangs := stalled{s.sent[n-1].Context()}
					switch {
					case n != tt.n:
					case tt.text == "-":
						_, _ = hangs.Read(nil)
					default:
						resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(tt.text), hangs))
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				resp := send(t, &retryhttp.Transport{Base: s, Resume: true, Policy: resuming}, request(t, "GET").WithContext(ctx))
				start := time.Now()
				time.AfterFunc(tt.at, func() {
					if how == "Close" {
						assert.NoError(t, resp.Body.Close())
					} else {
						cancel()
					}
				})
				got, err := io.ReadAll(resp.Body)
				assert.Equal(t, tt.at, time.Since(start))
				assert.True(t, strings.HasPrefix(s.text, string(got)))
				if how == "Close" {
					assert.Same(t, http.ErrBodyReadAfterClose, err)
				} else {
					assert.ErrorIs(t, err, context.Canceled)
				}
				require.NoError(t, resp.Body.Close())
				_, err = resp.Body.Read(make([]byte, 1))
				assert.Error(t, err)
				cancel()
				for _, req := range s.sent {
					assert.Error(t, req.Context().Err())
				}
			})
		}
	}
	bubble(t, "before the first Read, and after the end", func(t *testing.T) {
		for _, base := range []*source{{text: "not resumed", edit: func(_ int, resp *http.Response) { delete(resp.Header, "Etag") }}, {text: "0123456789", cuts: []int{4, -1}}} {
			tr := &retryhttp.Transport{Base: base, Resume: true, Policy: resuming}
			resp := send(t, tr)
			require.NoError(t, resp.Body.Close())
			_, err := resp.Body.Read(make([]byte, 1))
			assert.Same(t, http.ErrBodyReadAfterClose, err)
			assert.Len(t, base.sent, 1)
			base.sent = nil
			assert.Equal(t, base.text, textOf(t, send(t, tr, request(t, "GET").WithContext(foreign{t.Context()}))))
			assert.Error(t, base.sent[len(base.sent)-1].Context().Err())
		}
	})
}

// foreign is a context of a type that package context does not know. Each context that is derived
// from it has a goroutine until it is canceled.
type foreign struct{ context.Context }

func (foreign) Done() <-chan struct{} { return make(chan struct{}) }

// A body may return bytes together with an error, or no bytes. It is read correctly and closed
// once.
func TestResumeReaders(t *testing.T) {
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"as they are":                  func(r io.Reader) io.Reader { return r },
		"bytes together with an error": iotest.DataErrReader,
		"a byte at a time":             iotest.OneByteReader,
		"an end that comes too early":  func(r io.Reader) io.Reader { return io.LimitReader(r, 5) },
		"reads without a byte": func(r io.Reader) io.Reader {
			n := 0
			return reads(func(p []byte) (int, error) {
				if n++; n%3 > 0 {
					return 0, nil
				}
				return r.Read(p)
			})
		},
	} {
		bubble(t, name, func(t *testing.T) {
			var bodies []*body
			base := &source{text: "0123456789", cuts: []int{5, -1}}
			base.edit = func(_ int, resp *http.Response) {
				bodies = append(bodies, &body{Reader: reader(resp.Body)})
				resp.Body = bodies[len(bodies)-1]
			}
			resp := send(t, &retryhttp.Transport{Base: base, Resume: true, Policy: resuming})
			assert.EqualValues(t, 10, resp.ContentLength)
			n, err := resp.Body.Read(nil)
			assert.Zero(t, n)
			assert.NoError(t, err)
			assert.NoError(t, iotest.TestReader(resp.Body, []byte(base.text)))
			require.NoError(t, resp.Body.Close())
			require.Len(t, bodies, 2)
			assert.Equal(t, []int{1, 1}, []int{bodies[0].closes, bodies[1].closes})
		})
	}
}

// Whatever the Content-Range is, the caller reads the text or a beginning of it.
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
		to := -1
		if m := form.FindStringSubmatch(value); m != nil {
			to, _ = strconv.Atoi(m[1])
		}
		if 4 <= to && to < 10 {
			require.NoError(t, err)
			assert.Equal(t, base.text, got)
		} else {
			require.Error(t, err)
			assert.Equal(t, "0123", got)
		}
	})
}

// A 4xx for the missing bytes of a download follows an answer that broke off.
func TestBeforeOfADownload(t *testing.T) {
	base := &source{text: "0123456789", cuts: []int{4}}
	tr := &retryhttp.Transport{Resume: true, Policy: retry.Policy{MaxAttempts: 4}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Range") == "" {
			return base.RoundTrip(req)
		}
		return response(http.StatusNotFound), nil
	})}
	_, err := io.ReadAll(send(t, tr).Body)
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.ErrorIs(t, e.Before, io.ErrUnexpectedEOF)
}

// If the request for the missing bytes is not sent, its error contains the error of the body. Before
// does not repeat that error.
func TestBeforeOfADownloadWithoutAToken(t *testing.T) {
	tr := &retryhttp.Transport{
		Resume: true, Policy: retry.Policy{MaxAttempts: 4}, Base: &source{text: "0123456789", cuts: []int{4}},
		Prepare: func(req *http.Request, _ int, _ error) error {
			if req.Header.Get("Range") != "" {
				return errNoAnswer
			}
			return nil
		},
	}
	_, err := io.ReadAll(send(t, tr).Body)
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.NoError(t, e.Before)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// Check gets the error with which a body broke off together with the first request for the missing
// bytes.
func TestCheckOfABrokenBody(t *testing.T) {
	type key struct{}
	var got []string
	tr := &retryhttp.Transport{
		Base: &source{text: "0123456789", cuts: []int{4, -1}}, Policy: retry.Policy{MaxAttempts: 2}, Resume: true,
		Check: func(req *http.Request, resp *http.Response, err error) error {
			got = append(got, fmt.Sprint(req.Method, " ", req.URL, " ", req.Header["Range"], " ", req.Context().Value(key{}), " ", err))
			return retryhttp.Check(req, resp, err)
		},
	}
	req := request(t, "GET")
	assert.Equal(t, "0123456789", textOf(t, send(t, tr, req.WithContext(context.WithValue(req.Context(), key{}, "v")))))
	const first, missing = "GET http://example.test/ [] v <nil>", "GET http://example.test/ [bytes=4-] v "
	assert.Equal(t, []string{first, missing + "unexpected EOF", missing + "<nil>"}, got)
}
