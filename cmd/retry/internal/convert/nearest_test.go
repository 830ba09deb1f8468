package convert_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/cmd/retry/internal/convert"
)

// Every policy can be written for every system. What can be written exactly is,
// and of the rest every loss is named.
func TestNearestAlways(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	options := convert.Options{RetryOn: "5xx", Codes: []string{"UNAVAILABLE"}}
	for range 40 {
		p := randomPolicy(random)
		for _, to := range convert.Targets() {
			exact, err := convert.Write(to, p, options)
			text, losses, nearErr := convert.Nearest(to, p, options)
			require.NoError(t, nearErr, "%s: %+v", to, p)
			assert.NotEmpty(t, text)
			if err == nil {
				assert.Equal(t, exact, text)
				assert.Empty(t, losses)
				continue
			}
			require.NotEmpty(t, losses, "%s: %+v", to, p)
			first, _, _ := strings.Cut(losses[0], "; ")
			assert.Contains(t, err.Error(), first)
		}
	}
}
