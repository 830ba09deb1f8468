// Package retryvet is a plugin for golangci-lint that runs the checks of "retry vet". The README of
// this module says how to build golangci-lint with the plugin.
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
