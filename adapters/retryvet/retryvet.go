// Package retryvet has the checks of "retry vet" as a plugin of golangci-lint.
// docs/vet.md in the library's repository says how to build it in.
package retryvet

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry/cmd/retry/vet"
)

func init() {
	register.Plugin("retryvet", func(any) (register.LinterPlugin, error) { return plugin{}, nil })
}

type plugin struct{}

func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) { return vet.Analyzers, nil }

func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
