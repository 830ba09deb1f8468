package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goretry/retry/cmd/retry/internal/convert"
)

var convertCommand = &command{
	name: "convert", args: "-to SYSTEM [flags] FILE", run: convertPolicy,
	summary: "write a policy as the settings of another system, exactly or not at all",
	doc: `
Convert writes the policy in a file as the settings of another system, which
then makes the same decisions: the number of attempts, and the range of each
delay. If the system cannot express the policy, convert reports each setting
that prevents it, and the exit status is 1.

    retry convert -from tasker -to native step.yaml
    retry convert -to envoy -retry-on 5xx,reset policy.yaml
    retry convert -to grpc -codes UNAVAILABLE -service pay.Payments policy.yaml

The systems are

    native      the form of this library
    tasker, argyll, taskharbor
    nats        max_deliver and backoff of a JetStream consumer; its delays
                start at the delivery, so each must be longer than the work, and
                a Nak does not wait for them
    cenkalti    a Go expression for github.com/cenkalti/backoff/v4
    envoy       the retry_policy of a route, whose delays are whole milliseconds
    grpc        a service config
    temporal    a retry policy in the form of Temporal's API

A policy in a file does not say which failures to retry: use -retry-on for
Envoy, and -codes for gRPC.
`,
}

func convertPolicy(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	to := flags.String("to", "", "the `system` to write for: "+strings.Join(convert.Targets(), ", "))
	var options convert.Options
	flags.StringVar(&options.RetryOn, "retry-on", "", "for envoy: the `conditions` to retry, such as 5xx,reset")
	flags.StringVar(&options.Service, "service", "", "for grpc: the `service`, or service/method, that the config is for (default: all calls)")
	codes := flags.String("codes", "", "for grpc: the status `codes` to retry, such as UNAVAILABLE,ABORTED")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	if err := from.check(); err != nil {
		return c.misused(s, err)
	}
	switch {
	case !slices.Contains(convert.Targets(), *to):
		return c.misused(s, fmt.Sprintf("-to is %q: write one of %s", *to, strings.Join(convert.Targets(), ", ")))
	case *to == "envoy" && options.RetryOn == "":
		return c.misused(s, "Envoy retries nothing without conditions: write -retry-on, such as -retry-on 5xx,reset")
	case *to == "grpc" && *codes == "":
		return c.misused(s, "gRPC retries nothing without codes: write -codes, such as -codes UNAVAILABLE")
	}
	if *codes != "" {
		options.Codes = strings.Split(*codes, ",")
	}
	name, err := onlyFile(s, args)
	if err != nil {
		return c.misused(s, err)
	}
	p, status := c.readPolicy(s, name, from)
	if status != ok {
		return status
	}
	text, err := convert.Write(*to, p.Policy, options)
	if refused := new(convert.Error); errors.As(err, &refused) {
		for _, fault := range refused.Faults {
			status = c.failed(s, p.Fault(fault))
		}
		return status
	}
	if err != nil {
		return c.failed(s, err)
	}
	if _, err := io.WriteString(s.out, text); err != nil {
		return c.failed(s, err)
	}
	return ok
}
