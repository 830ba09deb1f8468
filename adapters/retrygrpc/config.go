package retrygrpc

import (
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// ServiceConfig returns p as a service config, for gRPC's own retries:
//
//	config, err := retrygrpc.ServiceConfig(policy, "shop.Orders")
//	client, err := grpc.NewClient(target, grpc.WithDefaultServiceConfig(config), ...)
//
// It is for the methods of a service, "pkg.Service", for one method,
// "/pkg.Service/Method" as generated constants have it, or for every call, "".
// The codes are UNAVAILABLE if none are given.
//
// The config is exact, or ServiceConfig returns an error that names every field
// of p that gRPC cannot express, see [retrydialect.ToGRPC]. Do not use it
// together with an [Interceptor]: the attempts of both would multiply.
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
