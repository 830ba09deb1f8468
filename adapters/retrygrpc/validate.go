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

// Validate returns an error if a policy of i is invalid, or if a name in Methods is
// not written as the name of a method or a service. It is also one if this program
// has the generated code of the name's package, and that has no such service or
// method. [Interceptor.DialOptions] calls Validate; call it yourself if you use Unary
// or Stream.
func (i Interceptor) Validate() error {
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
// if method is empty. It returns "" for a package of which nothing is known.
func misspelt(service protoreflect.FullName, method protoreflect.Name) string {
	found, _ := protoregistry.GlobalFiles.FindDescriptorByName(service)
	if s, ok := found.(protoreflect.ServiceDescriptor); ok {
		if method == "" || s.Methods().ByName(method) != nil {
			return ""
		}
		return fmt.Sprintf("the service has no method %s: write one of %s", method, strings.Join(namesOf(s.Methods()), ", "))
	}
	var known []string
	protoregistry.GlobalFiles.RangeFilesByPackage(service.Parent(), func(file protoreflect.FileDescriptor) bool {
		known = append(known, namesOf(file.Services())...)
		return true
	})
	if len(known) == 0 {
		return ""
	}
	slices.Sort(known)
	return fmt.Sprintf("package %s has no service %s: write one of %s", service.Parent(), service.Name(), strings.Join(known, ", "))
}

func namesOf[D protoreflect.Descriptor](list interface {
	Len() int
	Get(int) D
}) (names []string) {
	for i := range list.Len() {
		names = append(names, string(list.Get(i).Name()))
	}
	return names
}
