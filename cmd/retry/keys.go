package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"strings"
)

var keysCommand = &command{
	name: "keys", args: "", run: keys,
	summary: "print the keys of a policy, with their values",
	doc: `
Keys prints a table of what a policy in a file can say.

    retry keys
`,
}

var schemaCommand = &command{
	name: "schema", args: "", run: schema,
	summary: "print the JSON Schema of a policy, for editors",
	doc: `
Schema prints the JSON Schema (draft 2020-12) of a policy in a file. With it an
editor completes the keys, and marks most faults while you type.

    retry schema > policy.schema.json

Editors with the YAML language server look for it in the first line of a file:

    # yaml-language-server: $schema=policy.schema.json
`,
}

const (
	schemaID   = "https://raw.githubusercontent.com/goretry/retry/main/docs/policy.schema.json"
	editorLine = "# yaml-language-server: $schema=" + schemaID
)

// A policyKey is a key of the text form.
type policyKey struct {
	key, value, zero, says string
	schema                 map[string]any
}

type object = map[string]any

// A duration as the library reads it, not negative.
const durationPattern = `^[+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$|^-(0|((0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h))+)$`

func durationSchema() object { return object{"$ref": "#/$defs/duration"} }

func wholeSchema(least int) object {
	return object{"type": []string{"integer", "null"}, "minimum": least, "maximum": int64(math.MaxInt64)}
}

var policyKeys = []policyKey{
	{"max_attempts", "whole number", "an error", "attempts in all, with the first; -1: unlimited",
		object{"type": []string{"integer", "null"}, "minimum": -1, "maximum": int64(math.MaxInt64), "not": object{"const": 0}}},
	{"max_retries", "whole number", "one attempt", "attempts after the first; -1: unlimited", wholeSchema(-1)},
	{"attempt_cap", "whole number", "none", "the ceiling on attempts, over every other limit", wholeSchema(0)},
	{"retryable", "true or false", "-", "false: never retry a failure; true if left out", object{"type": []string{"boolean", "null"}}},
	{"backoff", "a mapping", "-", "the curve of delays", object{"$ref": "#/$defs/backoff"}},
	{"max_delay", "duration", "no cap", "no delay of the curve is longer, jitter included", durationSchema()},
	{"jitter", "text, number", "none", "how far a delay is spread",
		object{"anyOf": []object{{"enum": []any{"full", "equal", nil}}, {"type": "number", "minimum": 0, "maximum": 1}}}},
	{"max_retry_after", "duration", "1m or max_delay", "the longest Retry-After that is waited for", durationSchema()},
	{"exact_retry_after", "true or false", "-", "true: wait exactly what a server asks for", object{"type": []string{"boolean", "null"}}},
	{"max_elapsed", "duration", "no bound", "no retry starts later than this after the first attempt", durationSchema()},
	{"attempt_timeout", "duration", "none", "how long an attempt may run", durationSchema()},
	{"healthy_after", "duration", "never", "after an attempt that ran this long, the count starts over", durationSchema()},
}

// values says how the values of the keys are written.
const values = `
A duration is text: "200ms", "1m30s". A jitter is full (from nothing to the
delay), equal (from half of it), or a number from 0 to 1, a share of the delay:
0.2 is ±20 %. A backoff is one of these, where factor is at least 1, and 2 if it
is left out:

    {type: fixed, base: 1s}
    {type: linear, base: 1s}
    {type: exponential, base: 200ms, factor: 1.5}
    {type: fibonacci, base: 1s}
    {type: schedule, delays: [5m, 15m, 1h]}
`

func keys(s *streams, c *command, args []string) int {
	if status, done := c.alone(s, args); done {
		return status
	}
	for _, k := range policyKeys {
		value := k.value
		if k.zero != "-" {
			value += "; 0: " + k.zero
		}
		fmt.Fprintf(s.out, "%-18s %s\n%-18s %s\n", k.key, value, "", k.says)
	}
	fmt.Fprint(s.out, values)
	return ok
}

// alone parses the arguments of a command that takes none.
func (c *command) alone(s *streams, args []string) (status int, done bool) {
	rest, status, done := c.parse(s, flag.NewFlagSet(c.name, flag.ContinueOnError), args)
	if !done && len(rest) > 0 {
		return c.misused(s, "there is nothing to read: write no file"), true
	}
	return status, done
}

func schema(s *streams, c *command, args []string) int {
	status, done := c.alone(s, args)
	if !done {
		fmt.Fprint(s.out, policySchema())
	}
	return status
}

// policySchema returns the schema, with each key on a line.
func policySchema() string {
	delay := object{"type": "string", "pattern": durationPattern}
	var curves []object
	for _, kind := range []string{"fixed", "linear", "exponential", "fibonacci", "schedule"} {
		curve, needs := object{"type": object{"const": kind}, "base": delay}, []string{"type", "base"}
		switch kind {
		case "exponential":
			curve["factor"] = object{"type": "number", "minimum": 1, "maximum": math.MaxFloat64, "default": 2}
		case "schedule":
			curve, needs = object{"type": curve["type"], "delays": object{"type": "array", "items": delay, "minItems": 1}}, []string{"type", "delays"}
		}
		curves = append(curves, object{"properties": curve, "required": needs, "additionalProperties": false})
	}
	members := []string{
		member("$schema", "https://json-schema.org/draft/2020-12/schema"),
		member("$id", schemaID),
		member("$comment", "Editors look for this line in a YAML file: "+editorLine),
		member("title", "A retry policy"),
		member("type", []string{"object", "null"}),
		member("additionalProperties", false),
		member("$defs", object{
			"duration": object{"type": []string{"string", "null"}, "pattern": durationPattern, "examples": []string{"200ms", "1m30s"}},
			"backoff":  object{"type": []string{"object", "null"}, "if": object{"type": "object"}, "then": object{"oneOf": curves}},
		}),
	}
	var properties []string
	for _, k := range policyKeys {
		rule := maps.Clone(k.schema)
		rule["description"] = k.says
		properties = append(properties, "  "+member(k.key, rule))
	}
	members = append(members, "  \"properties\": {\n"+strings.Join(properties, ",\n")+"\n  }")
	return "{\n" + strings.Join(members, ",\n") + "\n}\n"
}

func member(key string, value any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // there is nothing in it that JSON does not have
	return fmt.Sprintf("  %q: %s", key, bytes.TrimSpace(b.Bytes()))
}
