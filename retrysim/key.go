package retrysim

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/goretry/retry/retrydialect/strict"
)

const (
	writeRate    = `calls a second, at most 1e9, such as "280/s" or "0.5/s"`
	writeService = "the name of a service"
)

// A key describes one key of the text form. UnmarshalJSON and Validate use the same keys.
type key struct {
	name  string
	value any // a pointer to the field, for package json
	valid bool
	write string // what to write if the value is not valid
}

// readKeys stores the values of m in the fields to which the list `keys` points. If m lacks a key,
// the field of this key is unchanged.
func readKeys(m *strict.Mapping, keys []key) {
	for _, k := range keys {
		strict.Take(m, k.name, k.write, func(text json.RawMessage) bool {
			return json.Unmarshal(text, k.value) == nil
		})
	}
}

// check calls the function `fault` for each of the keys whose value is not valid. `at` is the path
// before the name of a key, such as "services.web.".
func check(fault func(key string, value any, write string), at string, keys []key) {
	for _, k := range keys {
		if !k.valid {
			text, _ := json.Marshal(k.value) // json.Marshal fails only for NaN and infinity
			fault(at+k.name, cmp.Or(string(text), "not a finite number"), k.write)
		}
	}
}

func (v *Service) keys() []key {
	distributions := []Distribution{"", Exponential, Fixed, Normal}
	cancels := []Cancel{"", CancelNone, CancelQueue, CancelWork}
	return []key{
		{
			"rate", (*perSecond)(&v.Rate),
			v.Rate >= 0 && v.Rate <= maxRate,
			writeRate,
		},
		{
			"patience", (*strict.Duration)(&v.Patience),
			v.Patience >= 0,
			strict.WriteDuration,
		},
		{
			"clients", (*number)(&v.Clients),
			v.Clients >= 0 && v.Clients <= maxClients,
			"how many instances of this service there are, at most 100000000, such as 10",
		},
		{
			"workers", (*number)(&v.Workers),
			v.Workers >= 0 && v.Workers <= MaxInFlight,
			"how many workers there are, such as 30, or leave it out for no limit",
		},
		{
			"work", (*strict.Duration)(&v.Work),
			v.Work >= 0 && v.Work <= maxTime,
			strict.WriteDuration,
		},
		{
			"distribution", &v.Distribution,
			slices.Contains(distributions, v.Distribution),
			"exponential, fixed or normal",
		},
		{
			"queue", (*queue)(&v.Queue),
			v.Queue >= NoQueue,
			"how many requests may wait, or leave it out for no limit",
		},
		{
			"cancel", &v.Cancel,
			slices.Contains(cancels, v.Cancel),
			"none, queue or work",
		},
		{
			"lend", (*number)(&v.Lend),
			v.Lend == 0 || v.Lend > 0 && v.Lend <= math.MaxInt32 && v.Rate > 0,
			"how many retries a call from outside may cost in all, such as 3, " +
				"in a service that has a rate",
		},
	}
}

func (t *Trigger) keys() []key {
	return []key{
		{
			"at", (*strict.Duration)(&t.At),
			t.At >= 0 && t.At <= maxTime,
			"when it begins, such as 20s",
		},
		{
			"for", (*strict.Duration)(&t.For),
			t.For > 0 && t.For <= maxTime,
			"how long it lasts, such as 10s",
		},
		{"service", &t.Service, true, writeService},
		t.changeKey(),
	}
}

// changeKey returns the key for the Change of t, for example the key "workers".
func (t *Trigger) changeKey() key {
	switch v := t.Value; t.Change {
	case Workers:
		return key{
			"workers", &t.Value,
			v >= 0 && v <= MaxInFlight && v == math.Trunc(v),
			"how many workers take new requests, such as 0",
		}
	case Slower:
		return key{
			"slower", &t.Value,
			v > 0 && v <= 1e6,
			"how many times as long work takes, such as 3",
		}
	case Fail:
		return key{
			"fail", &t.Value,
			v >= 0 && v <= 1,
			"the share of requests that is refused, between 0 and 1",
		}
	case Rate:
		return key{"rate", (*perSecond)(&t.Value), v >= 0 && v <= maxRate, writeRate}
	}
	return key{
		"change", &t.Change,
		false,
		`what happens: "workers": 0, "slower": 3, "fail": 0.5 or "rate": "400/s"`,
	}
}
