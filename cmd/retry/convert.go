package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/convert"
	"github.com/goretry/retry/internal/strict"
)

var convertCommand = &command{
	name: "convert", args: "-to SYSTEM [flags] FILE", run: convertPolicy,
	summary: "write a policy as the settings of another system",
	doc: `
Convert writes the policy in a file as the settings of another system, which
then makes the same decisions: the number of attempts, and the range of each
delay. If the system cannot express the policy, convert reports each setting
that prevents it, and the exit status is 1. With -nearest it writes the closest
policy that the system has, and reports each loss with its size.

    retry convert -from tasker -to native step.yaml
    retry convert -to envoy -retry-on 5xx,reset policy.yaml
    retry convert -to grpc -codes UNAVAILABLE -service pay.Payments policy.yaml
    retry convert -to otel -nearest virtual-service.yaml

The systems are

    native         the form of this library
    tasker, argyll, taskharbor
    temporal       a retry policy in the form of Temporal's API
    grpc           a service config
    envoy          the retry_policy of a route
    istio          the retries of a route in a VirtualService
    stepfunctions  the Retry of a state
    otel           the retry_on_failure of an exporter of the Collector
    nats           max_deliver and backoff of a JetStream consumer; its delays
                   start at the delivery, so each must be longer than the work,
                   and a Nak does not wait for them
    cenkalti       an expression for github.com/cenkalti/backoff/v4, in Go

A policy in a file does not say which failures to retry: use -retry-on for
Envoy, Istio and Step Functions, and -codes for gRPC. Between systems that name
failures in the same way, convert keeps what the file says. What else a file
says that a policy does not is reported, and left out.
`,
}

// sameFailures are the systems that name failures in the same way.
var sameFailures = map[string]string{"envoy": "envoy", "istio": "envoy", "grpc": "grpc", "stepfunctions": "stepfunctions"}

func convertPolicy(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	to := ""
	flags.Func("to", "the `system` to write for: "+strings.Join(convert.Targets(), ", "), oneOf(convert.Targets(), &to))
	var options convert.Options
	flags.StringVar(&options.RetryOn, "retry-on", "", "for envoy, istio, stepfunctions: the `failures` to retry, such as 5xx,reset or States.ALL")
	flags.StringVar(&options.Service, "service", "", "for grpc: the `service`, or service/method, that the config is for (default: all calls)")
	codes := flags.String("codes", "", "for grpc: the status `codes` to retry, such as UNAVAILABLE,ABORTED")
	nearest := flags.Bool("nearest", false, "write the closest policy that the system has, and report what is lost")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	if to == "" {
		return c.misused(s, "there is no system: write -to and one of "+strings.Join(convert.Targets(), ", "))
	}
	name, err := onlyFile(s, args)
	if err != nil {
		return c.misused(s, err)
	}
	p, status := c.readPolicy(s, name, from)
	if status != ok {
		return status
	}
	same := sameFailures[to] != "" && sameFailures[to] == sameFailures[p.dialect]
	if same && options.RetryOn == "" {
		options.RetryOn = p.RetryOn
	}
	if *codes == "" && same {
		*codes = p.RetryOn
	}
	if *codes != "" {
		options.Codes = strings.Split(*codes, ",")
	}
	switch {
	case to == "envoy" && options.RetryOn == "":
		return c.misused(s, "Envoy retries nothing without conditions: write -retry-on, such as -retry-on 5xx,reset")
	case to == "stepfunctions" && options.RetryOn == "":
		return c.misused(s, "Step Functions retries nothing without errors: write -retry-on, such as -retry-on States.ALL")
	case to == "grpc" && *codes == "":
		return c.misused(s, "gRPC retries nothing without codes: write -codes, such as -codes UNAVAILABLE")
	}
	text, err := convert.Write(to, p.Policy, options)
	var losses []string
	if *nearest {
		text, losses, err = convert.Nearest(to, p.Policy, options)
	}
	if refused := new(strict.Error); errors.As(err, &refused) {
		for _, fault := range refused.Texts {
			status = c.failed(s, p.Fault(fault))
		}
		return status
	}
	if err != nil {
		return c.failed(s, err)
	}
	for _, note := range p.Notes {
		fmt.Fprintln(s.err, p.Fault(note))
	}
	for _, loss := range losses {
		fmt.Fprintln(s.err, p.Fault(loss))
	}
	fmt.Fprint(s.out, text)
	return ok
}
