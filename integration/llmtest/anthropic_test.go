package llmtest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

var anthropicSDK = sdk{
	name: "anthropic-sdk-go",
	ask: func(ctx context.Context, url string, client *http.Client, retries int, stream bool) (string, error) {
		return askAnthropic(ctx, anthropic.NewClient(option.WithAPIKey("key"), option.WithBaseURL(url),
			option.WithHTTPClient(client), option.WithMaxRetries(retries)), stream)
	},
	answer: `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],
		"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
	stream: `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}

event: message_stop
data: {"type":"message_stop"}

`,
	opening: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

`,
	overloaded: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
	refused: func(err error) *http.Response {
		var e *anthropic.Error
		if errors.As(err, &e) {
			return e.Response
		}
		return nil
	},
}

func askAnthropic(ctx context.Context, api anthropic.Client, stream bool) (string, error) {
	params := anthropic.MessageNewParams{
		Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	}
	if !stream {
		message, err := api.Messages.New(ctx, params)
		if err != nil {
			return "", err
		}
		return message.Content[0].Text, nil
	}
	var text strings.Builder
	events := api.Messages.NewStreaming(ctx, params)
	defer events.Close()
	for events.Next() {
		text.WriteString(events.Current().Delta.Text)
	}
	return text.String(), events.Err()
}

// The test runs the snippet of docs/recipes.md.
func TestRecipeAnthropic(t *testing.T) {
	url, requests := serve(t, anthropicSDK, 2, events(func(s sdk) string { return s.opening + s.overloaded }), true)
	t.Setenv("ANTHROPIC_BASE_URL", url)
	t.Setenv("ANTHROPIC_API_KEY", "key")

	policy := retry.Default()
	policy.AttemptTimeout = time.Minute // until the first piece of a stream, or the end of a JSON body
	transport := retryhttp.LLM(policy)
	transport.StallTimeout = time.Minute // longer than the longest silence of the model, also before its answer
	client := anthropic.NewClient(
		option.WithMaxRetries(0), // transport retries
		option.WithHTTPClient(&http.Client{Transport: transport}),
	)

	transport.Policy = retrytest.NoWait(policy)
	text, err := askAnthropic(t.Context(), client, true)
	require.NoError(t, err)
	assert.Equal(t, "hello", text)
	assert.EqualValues(t, 3, requests.Load())
}
