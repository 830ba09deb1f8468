package llmtest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
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
	refused: func(err error) *http.Response {
		var e *openai.Error
		if errors.As(err, &e) {
			return e.Response
		}
		return nil
	},
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

// The test runs the snippet of docs/recipes.md.
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
