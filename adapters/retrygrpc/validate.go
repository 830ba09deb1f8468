package retrygrpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/goretry/retry/adapters/internal/rpc"
)

// validate returns what [Interceptor.DialOptions] returns as its error.
func (i Interceptor) validate() error {
	if err := rpc.Validate("retrygrpc", i.Policy, i.Methods); err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(i.Methods)) {
		service, method, _ := strings.Cut(name[1:], "/")
		if fault := misspelt(protoreflect.FullName(service), protoreflect.Name(method)); fault != "" {
			errs = append(errs, fmt.Errorf("retrygrpc: Methods has %q: %s", name, fault))
		}
	}
	return errors.Join(errs...)
}

// misspelt returns what is wrong with the name of a method, or with the name of a service
// if method is empty. It returns "" for a package of which this program has no service.
func misspelt(service protoreflect.FullName, method protoreflect.Name) string {
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(service)
	if s, ok := found.(protoreflect.ServiceDescriptor); ok {
		if method == "" || s.Methods().ByName(method) != nil {
			return ""
		}
		return fmt.Sprintf("the service has no method %s", method)
	}
	known := false
	protoregistry.GlobalFiles.RangeFilesByPackage(service.Parent(), func(file protoreflect.FileDescriptor) bool {
		known = file.Services().Len() > 0
		return !known
	})
	if !known {
		return ""
	}
	return fmt.Sprintf("package %s has no service %s", service.Parent(), service.Name())
}
