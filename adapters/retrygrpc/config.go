package retrygrpc

import (
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// ServiceConfig converts p to a service config for gRPC's own retries:
//
//	config, err := retrygrpc.ServiceConfig(policy, "shop.Orders")
//	client, err := grpc.NewClient(target, grpc.WithDefaultServiceConfig(config), ...)
//
// service is "pkg.Service" for all methods of a service, "/pkg.Service/Method" for
// one method, as in the generated constants, or "" for every call. If no retryable
// codes are given, UNAVAILABLE is retried.
//
// The config is exact. If gRPC cannot express p, ServiceConfig returns an error
// that names every such field, see [retrydialect.ToGRPC]. Do not use the config
// together with an [Interceptor]: their attempts would multiply.
func ServiceConfig(p retry.Policy, service string, retryable ...codes.Code) (string, error) {
	if len(retryable) == 0 {
		retryable = defaultCodes
	}
	var names []string
	for _, code := range retryable {
		names = append(names, strconv.Itoa(int(code)))
	}
	return retrydialect.ToGRPC(p, strings.TrimPrefix(service, "/"), names...)
}
