package llmtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// Each code that OpenAI's SDK lists for a failed response is either temporary, or ends the call of
// LLM. A newer version of the SDK with another code makes this test fail.
func TestLLMKnowsTheCodesOfTheSDK(t *testing.T) {
	temporary := []string{
		"server_error", "rate_limit_exceeded", "vector_store_timeout", "failed_to_download_image",
		"flex_unavailable", "server_overloaded", "connection_failed", "sandbox_error", "request_timeout", "internal_error",
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openai/openai-go/v3").Output()
	require.NoError(t, err)
	var codes [][]string
	for file, name := range map[string]string{"responses/response.go": "ResponseErrorCode", "betaagent.go": "SessionTurnErrorCode"} {
		source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
		require.NoError(t, err)
		found := regexp.MustCompile(`\s`+name+` = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
		require.Greater(t, len(found), 15, file)
		codes = append(codes, found...)
	}
	for _, code := range codes {
		t.Run(code[1], func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = fmt.Fprintf(w, `data: {"type":"response.failed","response":{"error":{"code":%q}}}`+"\n\n", code[1])
			}))
			defer server.Close()
			client := &http.Client{Transport: retryhttp.LLM(retry.Policy{MaxAttempts: 2})} //retry:vet-ignore policyliteral no waits
			resp, err := client.Post(server.URL, "application/json", strings.NewReader("{}"))
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, slices.Contains(temporary, code[1]), requests == 2)
		})
	}
}
