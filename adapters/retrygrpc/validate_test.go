package retrygrpc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "google.golang.org/grpc/health/grpc_health_v1" // a package with one service
	_ "google.golang.org/grpc/interop/grpc_testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
)

// DialOptions refuses a policy for a name that no call has. If it accepted a misspelled name whose
// policy forbids retries, the calls would be retried.
func TestDialOptionsFails(t *testing.T) {
	const write = `: write "/pkg.Service/Method", or "/pkg.Service/" for all other methods`
	for name, want := range map[string]string{
		"/grpc.testing.TestService/UnaryCall": "",
		"/grpc.testing.TestService/":          "",
		"/grpc.health.v1.Health/Check":        "",
		"/shop.Orders/Charge":                 "", // nothing is known of this package
		"/Orders/Charge":                      "",
		"shop.Orders/Charge":                  write,
		"grpc.health.v1.Health/Check":         write,
		"/grpc.health.v1.Health":              write,
		"/shop.Orders/*":                      write,
		"":                                    write,
		"//Method":                            write,
		"/a/b/c":                              write,
		"/shop.Orders/Charge ":                write,
		"/grpc.health.v1.Health/Chek":         ": the service has no method Chek",
		"/grpc.health.v1.Health/check":        ": the service has no method check",
		"/grpc.health.v1.Healt/Check":         ": package grpc.health.v1 has no service Healt",
		"/grpc.health.v1.Healt/":              ": package grpc.health.v1 has no service Healt",
		"/grpc.health.v1.HealthCheckRequest/": ": package grpc.health.v1 has no service HealthCheckRequest",
	} {
		t.Run(name, func(t *testing.T) {
			i := retrygrpc.Interceptor{Policy: retry.Default(), Methods: map[string]retry.Policy{name: {}}}
			options, err := i.DialOptions()
			if want == "" {
				require.NoError(t, err)
				assert.NotEmpty(t, options)
				return
			}
			assert.EqualError(t, err, `retrygrpc: Methods has "`+name+`"`+want)
			assert.Empty(t, options)
		})
	}
	fault := func(i retrygrpc.Interceptor) error {
		_, err := i.DialOptions()
		return err
	}
	assert.EqualError(t, fault(retrygrpc.Interceptor{Policy: retry.Policy{MaxAttempts: -2}}), "invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited")
	invalid := retrygrpc.Interceptor{Methods: map[string]retry.Policy{"/shop.Orders/": {MaxAttempts: -2}, "x": {}}}
	assert.EqualError(t, fault(invalid), `retrygrpc: Methods["/shop.Orders/"]: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited`+"\n"+`retrygrpc: Methods has "x"`+write)
	two := retrygrpc.Interceptor{Methods: map[string]retry.Policy{"/grpc.health.v1.Health/B": {}, "/grpc.health.v1.Health/A": {}}}
	assert.ErrorContains(t, fault(two), "no method A\nretrygrpc: Methods has \"/grpc.health.v1.Health/B\"")
}
