// The programs that need more than the standard library. A module of its own, so
// that what they need does not become a requirement of the library.
module github.com/goretry/retry/examples/programs

go 1.26.0

replace (
	github.com/goretry/retry => ../..
	github.com/goretry/retry/adapters/retryotel => ../../adapters/retryotel
	github.com/goretry/retry/adapters/retryprom => ../../adapters/retryprom
	github.com/goretry/retry/retryflow => ../../retryflow
	github.com/goretry/retry/retrysim => ../../retrysim
)

require (
	github.com/go-viper/mapstructure/v2 v2.5.0
	github.com/goretry/retry v0.0.0-00010101000000-000000000000
	github.com/goretry/retry/retrysim v0.0.0-00010101000000-000000000000
	github.com/knadh/koanf/parsers/yaml v1.1.1
	github.com/knadh/koanf/providers/env/v2 v2.0.2
	github.com/knadh/koanf/providers/file v1.2.1
	github.com/knadh/koanf/v2 v2.4.1
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/fsnotify/fsnotify v1.9.0 // indirect
	github.com/knadh/koanf/maps v0.1.2 // indirect
	github.com/mitchellh/copystructure v1.2.0 // indirect
	github.com/mitchellh/reflectwalk v1.0.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
