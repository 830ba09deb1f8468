package retry

import (
	"cmp"
	"fmt"
	"strings"
)

// A Finding is one fault of a policy, or one warning about a policy. It comes from
// [Policy.Validate], from [Policy.Lint] or from a decoder. Programs should use Code, Field and Key.
// The texts are for people to read and may change.
type Finding struct {
	// Code says which kind of finding this is, such as "no_backoff" or "invalid_value". All
	// codes: https://github.com/goretry/retry/blob/main/docs/compatibility.md
	Code string

	Field string // the field in Go, such as "MaxDelay" or "Budget.Size"; "" if there is none
	Key   string // the key in JSON and YAML, such as "budget.size"; "" if there is none

	inGo, inKeys string
}

// String returns the text of f with the names of Go fields: "MaxDelay is -1ns: write ...".
func (f Finding) String() string { return f.inGo }

// InKeys returns the text of f with keys of the text form: "max_delay is -1ns: write ...".
func (f Finding) InKeys() string { return f.inKeys }

// WithText returns a copy of f. The methods String and InKeys of the copy both return the parameter
// `text`. WithText is for packages that read the settings of other systems.
func (f Finding) WithText(text string) Finding {
	f.inGo, f.inKeys = text, text
	return f
}

// A name says how the texts of a Finding write a setting or a value. Both texts of a Finding
// come from one format, such as "{MaxDelay} is %v". The word in braces is the token of a name.
// In place of the token, String writes MaxDelay, and InKeys writes max_delay.
type name struct {
	token string // the word in braces, without the braces
	field string // the field of Policy that the token names; "": the token names a value
	inGo  string // what String writes in place of the token; "": String writes the token itself
	key   string // the key of the text form that sets this field; "": there is no such key

	// The field inKeys is what the method InKeys writes in place of the token. If this field is "",
	// InKeys writes the field `key`. If the field `key` is "" too, InKeys writes the token.
	inKeys string
}

// allNames lists the names of all settings and values. The settings come in the order in which
// the text form writes their keys.
var allNames = []name{
	{token: "MaxAttempts", field: "MaxAttempts", key: "max_attempts"},
	{token: "MaxRetries", field: "MaxRetries", key: "max_retries"},
	{token: "AttemptCap", field: "AttemptCap", key: "attempt_cap"},
	{
		token: "NonRetryable", field: "NonRetryable",
		key: "retryable", inKeys: "retryable: false",
	},
	{token: "Backoff", field: "Backoff", key: "backoff"},
	{token: "Type", field: "Backoff", inGo: "Backoff", key: "backoff.type"},
	{token: "Fixed", field: "Backoff", inGo: "Backoff: Fixed", key: "backoff.base"},
	{token: "Linear", field: "Backoff", inGo: "Backoff: Linear", key: "backoff.base"},
	{token: "Fibonacci", field: "Backoff", inGo: "Backoff: Fibonacci", key: "backoff.base"},
	{
		token: "Exponential.Base", field: "Backoff.Base",
		inGo: "Backoff: Exponential.Base", key: "backoff.base",
	},
	{
		token: "Exponential.Factor", field: "Backoff.Factor",
		inGo: "Backoff: Exponential.Factor", key: "backoff.factor",
	},
	{token: "Schedule", field: "Backoff", inGo: "Backoff: Schedule", key: "backoff.delays"},
	{token: "MaxDelay", field: "MaxDelay", key: "max_delay"},
	{token: "Proportional", field: "Jitter", inGo: "Jitter: Proportional", key: "jitter"},
	{token: "Spread", field: "Jitter", inGo: "Jitter: Spread", key: "jitter"},
	{token: "MaxRetryAfter", field: "MaxRetryAfter", key: "max_retry_after"},
	{token: "RetryAfter", field: "RetryAfter", key: "retry_after"},
	{token: "MaxElapsed", field: "MaxElapsed", key: "max_elapsed"},
	{token: "AttemptTimeout", field: "AttemptTimeout", key: "attempt_timeout"},
	{token: "HealthyAfter", field: "HealthyAfter", key: "healthy_after"},
	{token: "Budget", field: "Budget", key: "budget"},
	{token: "Budget.Size", field: "Budget.Size", key: "budget.size"},
	{token: "Budget.Ratio", field: "Budget.Ratio", key: "budget.ratio"},
	{token: "Budget.RefillEvery", field: "Budget.RefillEvery", key: "budget.refill_every"},
	{token: "Budget.Remember", field: "Budget.Remember", key: "budget.remember"},
	{token: "Budget.Grace", field: "Budget.Grace", key: "budget.grace"},
	{token: "Budget.Borrowed", field: "Budget.Borrowed", key: "budget.borrowed"},
	{token: "Classify", field: "Classify"},

	// Values.
	{token: "a Backoff", inKeys: "a backoff"},
	{token: "a Schedule", inKeys: "a list"},
	{token: "Fixed(0)", inKeys: "a fixed backoff of 0s"},
	{token: "FullJitter", inKeys: "full"},
	{token: "EqualJitter", inKeys: "equal"},
	{token: "no Jitter", inGo: "nil", inKeys: "0"},
	{token: "RetryAfterSpread", inKeys: "spread"},
	{token: "RetryAfterAtLeast", inKeys: "at_least"},
	{token: "RetryAfterExact", inKeys: "exact"},
}

// inGo replaces each token in a format, such as {MaxDelay}, by the text for String, such as
// MaxDelay. inKeys replaces each token by the text for InKeys, such as max_delay.
var inGo, inKeys = writers()

func writers() (inGo, inKeys *strings.Replacer) {
	var fields, keys []string
	for _, n := range allNames {
		token := "{" + n.token + "}"
		fields = append(fields, token, cmp.Or(n.inGo, n.token))
		keys = append(keys, token, cmp.Or(n.inKeys, n.key, n.token))
	}
	return strings.NewReplacer(fields...), strings.NewReplacer(keys...)
}

// The function `finding` returns a Finding about one setting. The parameter `token` is the token of
// this setting in allNames, such as "MaxDelay". The parameter `format` is a format string for
// package fmt that also contains tokens in braces, such as {MaxDelay}. The texts of String and
// InKeys both come from `format`, so they always say the same thing.
func finding(code, token, format string, values ...any) Finding {
	f := Finding{
		Code:   code,
		inGo:   fmt.Sprintf(inGo.Replace(format), values...),
		inKeys: fmt.Sprintf(inKeys.Replace(format), values...),
	}
	for _, n := range allNames {
		if n.token == token {
			f.Field, f.Key = n.field, n.key
		}
	}
	return f
}

// fieldOf returns the field of a Policy for a key of the text form. For an unknown key inside a
// mapping, it returns the field of the mapping. It returns "" if there is no such field.
func fieldOf(key string) string {
	key, _, _ = strings.Cut(key, "[")
	for ; key != ""; key = key[:max(0, strings.LastIndex(key, "."))] {
		for _, n := range allNames {
			if n.key == key {
				return n.field
			}
		}
	}
	return ""
}
