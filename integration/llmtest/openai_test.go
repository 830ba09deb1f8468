package llmtest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

var openaiSDK = sdk{
	name: "openai-go",
	ask: func(ctx context.Context, url string, client *http.Client, retries int, stream bool) (string, error) {
		return askOpenAI(ctx, openai.NewClient(option.WithAPIKey("key"), option.WithBaseURL(url),
			option.WithHTTPClient(client), option.WithMaxRetries(retries)), stream)
	},
	answer: `{"id":"c","object":"chat.completion","created":1,"model":"m",
		"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}`,
	stream: `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"}}]}

data: [DONE]

`,
	overloaded: "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"code\":null}}\n\n",
	bad:        "data: {\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\",\"code\":null}}\n\n",
	refused: func(err error) *http.Response {
		var e *openai.Error
		if errors.As(err, &e) {
			return e.Response
		}
		return nil
	},
}

// The Responses API, which has an opening, and errors without the key "error".
var openaiResponses = sdk{
	name: "openai-go, responses",
	ask: func(ctx context.Context, url string, client *http.Client, retries int, stream bool) (text string, err error) {
		api := openai.NewClient(option.WithAPIKey("key"), option.WithBaseURL(url), option.WithHTTPClient(client), option.WithMaxRetries(retries))
		params := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
		if !stream {
			response, err := api.Responses.New(ctx, params)
			if err != nil {
				return "", err
			}
			return response.OutputText(), nil
		}
		events := api.Responses.NewStreaming(ctx, params)
		defer events.Close()
		for events.Next() {
			if event := events.Current(); event.Type == "error" {
				return "", errors.New(event.Message)
			} else {
				text += event.Delta
			}
		}
		return text, events.Err()
	},
	answer: `{"id":"r","object":"response","created_at":1,"model":"m","status":"completed","output":[{"id":"i","type":"message","role":"assistant",
		"status":"completed","content":[{"type":"output_text","text":"hello","annotations":[]}]}]}`,
	opening: `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","error":null,"output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"i","type":"message","role":"assistant","content":[]}}

`,
	stream: `event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":2,"item_id":"i","output_index":0,"content_index":0,"delta":"hello"}

event: response.completed
data: {"type":"response.completed","sequence_number":3,"response":{"id":"r","object":"response","status":"completed","error":null,"output":[]}}

`,
	overloaded: "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"again\",\"param\":null}\n\n",
	bad:        "event: error\ndata: {\"type\":\"error\",\"code\":\"invalid_prompt\",\"message\":\"no\",\"param\":null}\n\n",
	refused:    openaiSDK.refused,
}

func askOpenAI(ctx context.Context, api openai.Client, stream bool) (string, error) {
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	if !stream {
		completion, err := api.Chat.Completions.New(ctx, params)
		if err != nil {
			return "", err
		}
		return completion.Choices[0].Message.Content, nil
	}
	var text strings.Builder
	events := api.Chat.Completions.NewStreaming(ctx, params)
	defer events.Close()
	for events.Next() {
		for _, choice := range events.Current().Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String(), events.Err()
}

// The snippet of docs/recipes.md.
func TestRecipeOpenAI(t *testing.T) {
	url, requests := serve(t, openaiSDK, 2, status(529), false)
	t.Setenv("OPENAI_BASE_URL", url)
	t.Setenv("OPENAI_API_KEY", "key")
	policy := retrytest.NoWait(retry.Default())

	client := openai.NewClient(
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: retryhttp.LLM(policy)}),
	)

	text, err := askOpenAI(t.Context(), client, false)
	require.NoError(t, err)
	assert.Equal(t, "hello", text)
	assert.EqualValues(t, 3, requests.Load())
}
