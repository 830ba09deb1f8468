package retrygrpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/goretry/retry/adapters/retryrpc"
)

// validate returns the error of [Interceptor.DialOptions].
func (i Interceptor) validate() error {
	if err := retryrpc.Validate("retrygrpc", i.Policy, i.Methods); err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(i.Methods)) {
		if fault := misspelt(name); fault != "" {
			errs = append(errs, fmt.Errorf("retrygrpc: Methods has %q: %s", name, fault))
		}
	}
	return errors.Join(errs...)
}

// misspelt looks for the name of a method or service in the generated code of this program, and
// says what is missing. It returns "" if nothing is missing, or if the program contains no service
// in the protobuf package of the name.
func misspelt(name string) string {
	service, method, _ := strings.Cut(name[1:], "/")
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	s, known := found.(protoreflect.ServiceDescriptor)
	switch {
	case known && (method == "" || s.Methods().ByName(protoreflect.Name(method)) != nil):
		return ""
	case known:
		return "the service has no method " + method
	}
	pkg := protoreflect.FullName(service).Parent()
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		known = file.Services().Len() > 0
		return !known
	})
	if known {
		return fmt.Sprintf("package %s has no service %s", pkg, protoreflect.FullName(service).Name())
	}
	return ""
}
