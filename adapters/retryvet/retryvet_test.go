package retryvet

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/cmd/retry/vet"
)

func TestPluginHasTheChecks(t *testing.T) {
	build, err := register.GetPlugin("retryvet")
	require.NoError(t, err)
	plugin, err := build(nil)
	require.NoError(t, err)
	analyzers, err := plugin.BuildAnalyzers()
	require.NoError(t, err)
	assert.Equal(t, vet.Analyzers, analyzers)
	assert.Equal(t, register.LoadModeTypesInfo, plugin.GetLoadMode())
}
