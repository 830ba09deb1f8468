// Package retryvet makes the checks of "retry vet" a plugin of golangci-lint. The README of this
// module says how to build golangci-lint with it.
package retryvet

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry/cmd/retry/vet"
)

func init() {
	register.Plugin("retryvet", func(any) (register.LinterPlugin, error) {
		return plugin{}, nil
	})
}

type plugin struct{}

func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) { return vet.Analyzers, nil }

func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
