// Command run gets the plugin by its name, as golangci-lint does, and runs its checks.
package main

import (
	"log"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis/multichecker"

	_ "github.com/goretry/retry/adapters/retryvet"
)

func main() {
	build, err := register.GetPlugin("retryvet")
	if err != nil {
		log.Fatal(err)
	}
	plugin, _ := build(nil) // never fails
	analyzers, _ := plugin.BuildAnalyzers()
	multichecker.Main(analyzers...)
}
