package docs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
	"github.com/goretry/retry/retryhttp/sse"
)

// These tests run the snippets of docs/recipes.md about event streams.

// streams answers each request with the next of these bodies. After the last body it answers 204.
func streams(bodies ...string) *httpfault.Transport {
	var faults []httpfault.Fault
	for _, body := range bodies {
		faults = append(faults, func(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			header := http.Header{"Content-Type": {"text/event-stream"}}
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1, Request: req}, nil
		})
	}
	return httpfault.New(roundTripper(func(req *http.Request) (*http.Response, error) {
		return httpfault.Status(http.StatusNoContent, 0)(req, nil)
	}), faults...)
}

func get(t *testing.T) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://example.test/events", nil)
	require.NoError(t, err)
	return req
}

func TestRecipeFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network(t, streams("id: 1\ndata: a\n\nid: 2\ndata: b", "id: 2\ndata: b\n\n"))
		var shown []string
		policy, req := retry.Default(), get(t)
		show := func(_ string, data []byte) { shown = append(shown, string(data)) }
		err := func() error {
			policy.MaxAttempts = retry.Unlimited // counts connections in a row without an event
			client := &http.Client{Transport: &retryhttp.Transport{
				StallTimeout: time.Minute, // longer than the longest silence of the server
			}}
			feed := &sse.Stream{Client: client, Policy: policy}
			for event, err := range feed.Events(req) {
				if err != nil {
					return err
				}
				show(event.Name, event.Data)
			}
			return nil // the server answered 204, or ended the stream before its first ID
		}()
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, shown)
	})
}

// A feedStore keeps data and the ID of the last event.
type feedStore struct {
	id    string
	saved []string
	fails bool
}

func (s *feedStore) load() string { return s.id }

func (s *feedStore) save(data []byte, id string) error {
	if s.fails {
		return errBoom
	}
	s.saved, s.id = append(s.saved, string(data)), id
	return nil
}

func TestRecipeStoredID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := streams("id: 1\ndata: a\n\n", "id: 2\ndata: b\n\n")
		client := &http.Client{Transport: &retryhttp.Transport{Base: base}}
		policy, stored := retry.Default(), &feedStore{}
		run := func(req *http.Request) error {
			req.Header.Set("Last-Event-ID", stored.load()) // "" at first
			feed := &sse.Stream{Client: client, Policy: policy}
			for event, err := range feed.Events(req) {
				if err != nil {
					return err
				}
				if err := stored.save(event.Data, event.ID); err != nil {
					return err
				}
			}
			return nil
		}
		require.NoError(t, run(get(t)))
		assert.Equal(t, []string{"a", "b"}, stored.saved)
		require.NoError(t, run(get(t)), "a restart")
		stored.fails = true
		client.Transport = &retryhttp.Transport{Base: streams("id: 3\ndata: c\n\n")}
		require.ErrorIs(t, run(get(t)), errBoom)
		assert.Equal(t, "2", stored.id)
		var ids []string
		for _, call := range base.Calls() {
			ids = append(ids, call.Header.Get("Last-Event-ID"))
		}
		assert.Equal(t, []string{"", "1", "2", "2"}, ids)
	})
}

func TestRecipeMCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := streams("id: s/0\ndata:\n\n", `id: s/1
data: {"jsonrpc":"2.0","method":"notifications/progress"}

id: s/2
data: {"jsonrpc":"2.0","id":7,"method":"elicitation/create"}

`, `id: s/3
data: {"jsonrpc":"2.0","id":1,"result":{}}

data: never
`)
		client, policy := &http.Client{Transport: &retryhttp.Transport{Base: base}}, retry.Default()
		post, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.test/mcp", strings.NewReader("{}"))
		require.NoError(t, err)

		call := &sse.Stream{
			Client: client,
			Policy: policy,
			Resume: sse.ResumeByGET(post),
			Last: func(e sse.Event) bool {
				var message struct {
					ID     json.RawMessage
					Method string
				}
				err := json.Unmarshal(e.Data, &message) // an event without data opens the stream
				return err == nil && message.ID != nil && message.Method == ""
			},
		}

		var ids []string
		for event, err := range call.Events(post) {
			require.NoError(t, err)
			ids = append(ids, event.ID)
		}
		assert.Equal(t, []string{"s/0", "s/1", "s/2", "s/3"}, ids)
		assert.Equal(t, "POST", base.Calls()[0].Method)
		assert.Equal(t, "GET", base.Calls()[1].Method)
		assert.Len(t, base.Calls(), 3)
	})
}

// A piece is the data of one event of an answer.
type piece struct {
	SequenceNumber int `json:"sequence_number"`
	Response       struct{ ID string }
}

func pieceOf(e sse.Event) (p piece) {
	_ = json.Unmarshal(e.Data, &p)
	return p
}

func TestRecipeAnswerThatGoesOn(t *testing.T) {
	const created = "event: response.created\ndata: " + `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1"}}` + "\n\n"
	delta := func(n int) string {
		return fmt.Sprintf("event: response.output_text.delta\ndata: "+`{"type":"response.output_text.delta","sequence_number":%d,"delta":"x"}`+"\n\n", n)
	}
	const completed = "event: response.completed\ndata: " + `{"type":"response.completed","sequence_number":4,"response":{"id":"resp_1"}}` + "\n\n"
	for _, row := range []struct {
		name   string
		bodies []string
		events int
		urls   []string
	}{
		{"nothing breaks", []string{created + delta(1) + delta(2) + delta(3) + completed}, 5, []string{"/v1/responses"}},
		{"the stream breaks before the first piece", []string{created, delta(1) + completed}, 3,
			[]string{"/v1/responses", "/v1/responses/resp_1?stream=true&starting_after=0"}},
		{"the stream breaks twice", []string{created + delta(1), delta(2), delta(3) + completed}, 5,
			[]string{"/v1/responses", "/v1/responses/resp_1?stream=true&starting_after=1", "/v1/responses/resp_1?stream=true&starting_after=2"}},
	} {
		bubble(t, row.name, func(t *testing.T) {
			base := streams(row.bodies...)
			network(t, base)
			policy := retry.Default()
			post, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.test/v1/responses", strings.NewReader("{}"))
			require.NoError(t, err)
			post.Header.Set("Authorization", "Bearer key")

			var id string
			answer := &sse.Stream{
				Client: &http.Client{Transport: &retryhttp.Transport{Advise: retryhttp.VendorAdvice}},
				Policy: policy,
				Last: func(e sse.Event) bool {
					id = cmp.Or(id, pieceOf(e).Response.ID)
					return slices.Contains([]string{"response.completed", "response.failed", "response.incomplete"}, e.Name)
				},
				Resume: func(ctx context.Context, last sse.Event) (*http.Request, error) {
					url := fmt.Sprintf("%s/%s?stream=true&starting_after=%d", post.URL, id, pieceOf(last).SequenceNumber)
					req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
					if err == nil {
						req.Header.Set("Authorization", post.Header.Get("Authorization"))
					}
					return req, err
				},
			}

			n := 0
			for _, err := range answer.Events(post) {
				require.NoError(t, err)
				n++
			}
			assert.Equal(t, row.events, n)
			var urls []string
			for _, call := range base.Calls() {
				urls = append(urls, strings.TrimPrefix(call.URL, "http://example.test"))
				assert.Equal(t, "Bearer key", call.Header.Get("Authorization"))
			}
			assert.Equal(t, row.urls, urls)
		})
	}
}

// The page is short, and has one table.
func TestEventsPageIsShort(t *testing.T) {
	page := text(t, "docs/events.md")
	assert.LessOrEqual(t, len(strings.Fields(page)), 500)
	assert.Equal(t, 1, strings.Count(page, "|---|"+"---|---|---|"))
}
