package retrysim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect/strict"
)

const invalidSystem = "retrysim: invalid system"

// Validate returns nil if s can be simulated. Otherwise the error names up to 20 faults: the key,
// the value, and what to write instead. The error has a method Findings() []retry.Finding, which
// returns one value for each fault. Run, Explain and Check call Validate first.
func (s System) Validate() error {
	if err := s.validate(); err != nil {
		return err
	}
	order, err := s.order()
	if err != nil {
		return err
	}
	return s.checkSize(order)
}

// order returns the names of the services, each service before the services that it calls.
// It returns an error if a service calls itself, directly or through other services.
func (s System) order() (order []string, err error) {
	done := map[string]bool{}
	var visit func(path []string)
	visit = func(path []string) {
		last := len(path) - 1
		name := path[last]
		if i := slices.Index(path, name); i < last {
			err = fault("services",
				"services call each other in a circle: %s: take one of these calls out",
				strings.Join(path[i:], " -> "))
		}
		if done[name] || err != nil {
			return
		}
		for _, e := range s.Services[name].Calls {
			visit(append(path, e.To))
		}
		done[name] = true
		order = append(order, name)
	}
	for _, name := range s.names() {
		visit([]string{name})
	}
	slices.Reverse(order)
	return order, err
}

// validate checks each value of s. It also checks that each call and each event names a service
// of s.
func (s System) validate() error {
	var f strict.Faults
	if n := len(s.Services); n == 0 || n > MaxServices {
		f.Add("services", n, fmt.Sprintf("between 1 and %d services", MaxServices))
		return f.Err(invalidSystem)
	}
	for _, name := range s.names() {
		v := s.Services[name]
		s.validateService(&f, "services."+name+".", &v)
	}
	if len(s.entries()) == 0 {
		f.Add("rate", "missing in all services",
			`how many calls come from outside, such as "280/s", in one of them`)
	}
	for i, t := range s.Events {
		s.validateEvent(&f, fmt.Sprintf("events[%d].", i), &t)
	}
	least := s.lastEnd() + hold*time.Second
	if s.Duration != 0 && (s.Duration < least || s.Duration > maxTime) {
		f.Add("duration", s.Duration, fmt.Sprintf("at least %v, which is 10s after the end of "+
			"the last event, and at most %v, or leave it out", least, maxTime))
	}
	return f.Err(invalidSystem)
}

func (s System) validateService(f *strict.Faults, at string, v *Service) {
	check(f.Add, at, v.keys())
	for i, e := range v.Calls {
		at := fmt.Sprintf("%scalls[%d].", at, i)
		if _, known := s.Services[e.To]; !known {
			f.Add(at+"to", fmt.Sprintf("%q", e.To), writeService)
		}
		var invalid *retry.PolicyError
		if errors.As(e.Policy.Validate(), &invalid) {
			f.Within(at+"retry", invalid)
		}
	}
}

func (s System) validateEvent(f *strict.Faults, at string, t *Trigger) {
	check(f.Add, at, t.keys())
	switch v, known := s.Services[t.Service]; {
	case !known:
		f.Add(at+"service", fmt.Sprintf("%q", t.Service), writeService)
	case t.Change == Rate && v.Rate == 0:
		f.Add(at+"rate", t.Value,
			"the name of a service that has a rate, because other services get no calls from outside")
	}
}

// fault returns an error about a key, or about the whole system if the key is "".
func fault(key, format string, args ...any) error {
	return strict.One(invalidSystem, key, fmt.Sprintf(format, args...), nil)
}
