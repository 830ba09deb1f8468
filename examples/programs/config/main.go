// Config reads retry policies as part of the configuration of a service. It uses koanf to read a
// YAML file, and then environment variables, which override the file.
//
//	go run .
//	ORDERS_PAYMENTS__RETRY__MAX_ATTEMPTS=9 go run .
//	ORDERS_PAYMENTS__RETRY='{"max_retries": 2, "jitter": "full"}' go run .
//
// koanf and viper decode with mapstructure, which sets the fields of a struct itself and never
// calls UnmarshalJSON or UnmarshalYAML. So both libraries need a decode hook. policyHook works
// for both.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"github.com/goretry/retry"
)

// Config is the configuration of the service.
type Config struct {
	Listen   string  `koanf:"listen"`
	Payments Service `koanf:"payments"`
	Stock    Service `koanf:"stock"`
}

// Service is another service, which this service calls.
type Service struct {
	URL   string       `koanf:"url"`
	Retry retry.Policy `koanf:"retry"`
}

func main() { os.Exit(run("config.yaml", os.Environ, os.Stdout, os.Stderr)) }

func run(path string, environ func() []string, stdout, stderr io.Writer) int {
	config, err := load(path, environ)
	if err != nil {
		// An error of mapstructure has several lines, which become one line here.
		fmt.Fprintln(stderr, strings.Join(strings.Fields(err.Error()), " "))
		return 1
	}
	for _, service := range []Service{config.Payments, config.Stock} {
		fmt.Fprintf(stdout, "%s: %v\n", service.URL, service.Retry)
		for _, note := range service.Retry.Lint() {
			fmt.Fprintln(stdout, "Note:", note.InKeys())
		}
	}
	return 0
}

// The function `load` reads the configuration. It checks the policies at the end, because a file
// and the environment may set different keys of one policy.
func load(path string, environ func() []string) (*Config, error) {
	k := koanf.New(".")
	if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	variables := env.Provider(".", env.Opt{
		Prefix: "ORDERS_", TransformFunc: variable, EnvironFunc: environ,
	})
	if err := k.Load(variables, nil); err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}

	// These defaults apply to keys that are missing in the file and in the environment.
	config := &Config{
		Payments: Service{Retry: retry.Default()},
		Stock:    Service{Retry: retry.Default()},
	}
	decoder := &mapstructure.DecoderConfig{
		DecodeHook:  policyHook, // for viper: viper.Unmarshal(config, viper.DecodeHook(policyHook))
		ErrorUnused: true,
	}
	err := k.UnmarshalWithConf("", config, koanf.UnmarshalConf{DecoderConfig: decoder})
	if err != nil {
		return nil, err
	}
	policies := map[string]retry.Policy{
		"payments.retry": config.Payments.Retry,
		"stock.retry":    config.Stock.Retry,
	}
	for name, p := range policies {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return config, nil
}

// The function `variable` returns the key of the configuration that an environment variable sets,
// and the value of this key. If the value is valid JSON, such as true, a number or an object, the
// function decodes this JSON. Any other value is a text.
func variable(name, text string) (key string, value any) {
	key = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "ORDERS_")), "__", ".")
	if json.Unmarshal([]byte(text), &value) != nil {
		value = text
	}
	return key, value
}

// policyHook decodes a retry.Policy with its UnmarshalJSON. If the configuration lacks a key, the
// field of this key keeps its value. mapstructure decodes all other types.
func policyHook(from, to reflect.Value) (any, error) {
	p, ok := to.Interface().(retry.Policy)
	if !ok {
		return from.Interface(), nil
	}
	data, err := json.Marshal(from.Interface())
	if err != nil {
		return nil, err
	}
	err = p.UnmarshalJSON(data)
	return p, err
}
