package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/convert"
	"github.com/goretry/retry/internal/strict"
)

// sameFailures are the systems that name failures in the same way.
var sameFailures = map[string]string{"envoy": "envoy", "istio": "envoy", "grpc": "grpc", "stepfunctions": "stepfunctions"}

// A conversion is what plan -as writes.
type conversion struct {
	to, codes string
	convert.Options
}

func (o *conversion) define(flags *flag.FlagSet) {
	flags.Func("as", "write the settings of this `system`, or say why they cannot be exact: "+strings.Join(convert.Targets(), ", "), oneOf(convert.Targets(), &o.to))
	flags.StringVar(&o.RetryOn, "retry-on", "", "for -as envoy, istio, stepfunctions: the `failures` to retry, such as 5xx,reset or States.ALL")
	flags.StringVar(&o.Service, "service", "", "for -as grpc: the `service`, or service/method, that the config is for (default: all calls)")
	flags.StringVar(&o.codes, "codes", "", "for -as grpc: the status `codes` to retry, such as UNAVAILABLE,ABORTED")
}

// writeAs writes p as the settings of another system. Between systems that name failures
// in the same way it keeps those.
func (c *command) writeAs(s *streams, p policy, o conversion) (status int) {
	if family := sameFailures[o.to]; family != "" && family == sameFailures[p.dialect] {
		if o.RetryOn == "" {
			o.RetryOn = p.RetryOn
		}
		if o.codes == "" {
			o.codes = p.RetryOn
		}
	} else if p.RetryOn != "" {
		fmt.Fprintln(s.err, p.Fault("the failures to retry, "+p.RetryOn+", are not written: elsewhere they have other names, or stand in code"))
	}
	if o.codes != "" {
		o.Codes = strings.Split(o.codes, ",")
	}
	switch {
	case o.to == "envoy" && o.RetryOn == "":
		return c.misused(s, "Envoy retries nothing without conditions: write -retry-on, such as -retry-on 5xx,reset")
	case o.to == "stepfunctions" && o.RetryOn == "":
		return c.misused(s, "Step Functions retries nothing without errors: write -retry-on, such as -retry-on States.ALL")
	case o.to == "grpc" && o.codes == "":
		return c.misused(s, "gRPC retries nothing without codes: write -codes, such as -codes UNAVAILABLE")
	}
	text, notes, err := convert.Write(o.to, p.Policy, o.Options)
	if refused := new(strict.Error); errors.As(err, &refused) {
		for _, fault := range refused.Texts {
			status = c.failed(s, p.Block.Fault(fault))
		}
		return status
	}
	if err != nil {
		return c.failed(s, err)
	}
	for _, note := range append(p.Notes, notes...) {
		fmt.Fprintln(s.err, p.Fault(note))
	}
	fmt.Fprint(s.out, text)
	return ok
}
