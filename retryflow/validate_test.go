package retryflow_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	. "github.com/goretry/retry/retryflow"
)

func TestValidate(t *testing.T) {
	run := func(context.Context, State) Outcome { panic("Validate calls nothing") }
	never := func(Outcome) (time.Duration, error) { panic("Validate calls nothing") }
	set := func(State, Outcome) error { panic("Validate calls nothing") }
	once := retry.Policy{MaxAttempts: 2}
	wait := func(context.Context, time.Duration) (time.Duration, error) { panic("Validate calls nothing") }
	rule := func(r Rule) Pipeline {
		return Pipeline{Tasks: []Task{{Label: "t", Run: run, Rules: Rules{r}}}}
	}
	policy := func(p retry.Policy) Pipeline {
		return Pipeline{Policy: p, Tasks: []Task{{Label: "t", Run: run}}}
	}
	for name, row := range map[string]struct {
		p    Pipeline
		want string // "": valid
	}{
		"an empty pipeline":                     {Pipeline{}, ""},
		"policy with bounds":                    {policy(retry.Policy{MaxAttempts: 3, MaxElapsed: 1, AttemptTimeout: 1, Budget: &retry.Budget{Size: 1}, Source: zeros, Wait: wait}), ""},
		"policy with RetryIf":                   {policy(retry.Policy{RetryIf: func(error) bool { return true }}), "Policy: RetryIf belongs to the rules: write a When"},
		"unlimited":                             {policy(retry.Policy{MaxAttempts: retry.Unlimited}), ""},
		"no label":                              {Pipeline{Tasks: []Task{{Run: run}}}, "Tasks[0]: Label is empty"},
		"duplicate label":                       {Pipeline{Tasks: []Task{{Label: "t", Run: run}, {Label: "t", Run: run}}}, `task "t": Tasks[0] and Tasks[1] have the same Label`},
		"no Run":                                {Pipeline{Tasks: []Task{{Label: "t"}}}, `task "t": Run is nil`},
		"negative MaxJumps":                     {Pipeline{MaxJumps: -1}, "MaxJumps is -1: write how many, or 0 for 10,000"},
		"policy":                                {policy(retry.Policy{MaxAttempts: -2}), "Policy: invalid policy: MaxAttempts is -2"},
		"policy with Backoff":                   {policy(retry.Policy{Backoff: retry.Fixed(1)}), "Policy: Backoff belongs to the rules: set it in their Policy"},
		"policy with MaxDelay":                  {policy(retry.Policy{MaxDelay: 1}), "Policy: MaxDelay belongs to the rules"},
		"policy with jitter":                    {policy(retry.Policy{Jitter: retry.FullJitter}), "Policy: Jitter belongs to the rules"},
		"policy with RetryAfter":                {policy(retry.Policy{MaxRetryAfter: 1, RetryAfter: retry.RetryAfterExact}), ""},
		"policy with Classify":                  {policy(retry.Policy{Classify: Rules{}.Classify}), "Policy: Classify is not used: write Rules"},
		"policy with OnEvent":                   {policy(retry.Policy{OnEvent: func(context.Context, retry.Event) {}}), "Policy: OnEvent is not used: set Pipeline.OnEvent"},
		"policy with HealthyAfter":              {policy(retry.Policy{HealthyAfter: time.Minute}), "Policy: HealthyAfter is not used, because the attempts of a task are never reset: leave it 0, and call retry.Do with HealthyAfter in Run"},
		"no directive":                          {rule(Rule{}), `task "t": rule 0: Do is "": write Continue, Retry, Jump, Break or Fail`},
		"unknown directive":                     {rule(Rule{Do: "explode"}), `task "t": rule 0: Do is "explode"`},
		"fail and set":                          {rule(Rule{Do: Fail, Set: set}), ""},
		"retry":                                 {rule(Rule{Do: Retry, Policy: once, Delay: never, Set: set}), ""},
		"retry without a limit":                 {rule(Rule{Do: Retry, Policy: retry.Policy{Backoff: retry.Fixed(1)}}), "Policy sets no limit: write MaxAttempts or MaxRetries"},
		"unlimited retry without a delay":       {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: -1}}), "unlimited attempts without a delay"},
		"unlimited retry with a delay":          {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(1)}}), ""},
		"unlimited retry with a computed delay": {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: -1}, Delay: never}), ""},
		"retry with a bad policy":               {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, MaxDelay: -1}}), "MaxDelay is -1ns"},
		"retry with a bad curve":                {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Exponential{Factor: 0.5}}, Delay: never}), "Factor is 0.5"},
		"retry with To":                         {rule(Rule{Do: Retry, Policy: once, To: "t"}), "To is only valid for Jump"},
		"jump":                                  {rule(Rule{Do: Jump, To: "t", Delay: never, Set: set}), ""},
		"jump to an unknown task":               {rule(Rule{Do: Jump, To: "nosuch"}), `To is "nosuch": no task has that Label`},
		"jump without To":                       {rule(Rule{Do: Jump}), `To is "": no task has that Label`},
		"attempts without a retry":              {rule(Rule{Do: Break, Attempts: func(Outcome) (int, error) { panic("Validate calls nothing") }}), "Attempts is only valid for Retry"},
		"delay without a wait":                  {rule(Rule{Do: Break, Delay: never}), "Delay is only valid for Retry and Jump"},
		"rule after the else":                   {Pipeline{Tasks: []Task{{Label: "t", Run: run, Rules: Rules{{Do: Break}, {Do: Fail}}}}}, `task "t": rule 1 is never reached: rule 0 has no When and always matches`},
		"rule: Source":                          {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, Source: zeros}}), "Source of its Policy is not used: set it in Pipeline.Policy"},
		"rule: MaxElapsed":                      {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, MaxElapsed: 1}}), "MaxElapsed of its Policy is not used"},
		"rule: AttemptTimeout":                  {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: 1}}), "AttemptTimeout of its Policy is not used"},
		"rule: RetryIf":                         {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, RetryIf: func(error) bool { return true }}}), "RetryIf of its Policy is not used: write a When"},
		"policy without a retry":                {rule(Rule{Do: Break, Policy: once}), `task "t": rule 0: Policy is only valid for Retry`},
		"policy of a jump":                      {rule(Rule{Do: Jump, To: "t", Policy: retry.Policy{OnEvent: func(context.Context, retry.Event) {}}}), "Policy is only valid for Retry"},
		"rule: Classify":                        {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, Classify: Rules{}.Classify}}), "Classify of its Policy is not used: write more rules"},
		"rule: HealthyAfter":                    {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, HealthyAfter: time.Minute}}), "HealthyAfter of its Policy is not used: leave it 0, or set it in the policy that has the Classify"},
		"rule: Wait":                            {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, Wait: wait}}), "Wait of its Policy is not used: set it in Pipeline.Policy, or in the policy that has the Classify"},
		"rule: the fields of a class":           {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, MaxRetries: 2, AttemptCap: 2, NonRetryable: true, Backoff: retry.Fixed(1), MaxDelay: 1, Jitter: retry.FullJitter}}), ""},
		"rule: MaxRetryAfter":                   {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, MaxRetryAfter: 1}}), "MaxRetryAfter of its Policy is not used: set it in Pipeline.Policy, or in the policy that has the Classify"},
		"rule: RetryAfter":                      {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, RetryAfter: retry.RetryAfterExact}}), "RetryAfter of its Policy is not used: set it in Pipeline.Policy, or in the policy that has the Classify"},
		"rule: Budget":                          {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, Budget: &retry.Budget{Size: 1}}}), "Budget of its Policy is not used"},
		"rule: OnEvent":                         {rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, OnEvent: func(context.Context, retry.Event) {}}}), "OnEvent of its Policy is not used: set Pipeline.OnEvent, or OnEvent of the policy that has the Classify"},
		"unlimited except for MaxElapsed":       {Pipeline{Policy: retry.Policy{MaxElapsed: 1}, Tasks: rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: -1}}).Tasks}, "unlimited attempts without a delay"},
		"unlimited except for a Budget":         {Pipeline{Policy: retry.Policy{Budget: &retry.Budget{Size: 1}}, Tasks: rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: -1}}).Tasks}, ""},
		"unlimited except for MaxRetries":       {Pipeline{Policy: retry.Policy{MaxRetries: 2}, Tasks: rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: -1}}).Tasks}, ""},
		"unlimited except for AttemptCap":       {Pipeline{Policy: retry.Policy{AttemptCap: 2}, Tasks: rule(Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: -1}}).Tasks}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.p.Validate()
			if row.want == "" {
				assert.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
			assert.NotContains(t, err.Error(), "\n")
			assert.Equal(t, err.Error(), row.p.Run(t.Context(), nil).Error(), "Run returns the same error and runs nothing")
		})
	}
}

func TestValidateRules(t *testing.T) {
	when := func(Outcome) (bool, error) { panic("Validate calls nothing") }
	never := func(Outcome) (time.Duration, error) { panic("Validate calls nothing") }
	set := func(State, Outcome) error { panic("Validate calls nothing") }
	once := retry.Policy{MaxAttempts: 2}
	for name, row := range map[string]struct {
		rules Rules
		want  string
	}{
		"no rules":       {nil, ""},
		"valid":          {Rules{{When: when, Do: Retry, Policy: once, Delay: never}, {When: when, Do: Continue}, {When: when, Do: Break}, {Do: Fail}}, ""},
		"unlimited":      {Rules{{Do: Retry, Policy: retry.Policy{MaxAttempts: retry.Unlimited}}}, ""},
		"bad policy":     {Rules{{Do: Retry, Policy: retry.Policy{MaxAttempts: -2}}}, "rule 0: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"},
		"no limit":       {Rules{{Do: Retry}}, "rule 0: Policy sets no limit: write MaxAttempts or MaxRetries"},
		"no directive":   {Rules{{Policy: once}}, `rule 0: Do is "": write Continue, Retry, Jump, Break or Fail; rule 0: Policy is only valid for Retry`},
		"jump":           {Rules{{Do: Jump, To: "t"}}, "rule 0: Jump is only valid in a Pipeline: write Retry or Fail"},
		"set":            {Rules{{Do: Retry, Policy: once, Set: set}}, "rule 0: Set is only valid in a Pipeline"},
		"fail and set":   {Rules{{Do: Fail, Set: set}}, "rule 0: Set is only valid in a Pipeline"},
		"MaxElapsed":     {Rules{{Do: Retry, Policy: retry.Policy{MaxAttempts: 2, MaxElapsed: 1}}}, "rule 0: MaxElapsed of its Policy is not used: set it in Pipeline.Policy, or in the policy that has the Classify"},
		"after the else": {Rules{{Do: Fail}, {Do: Fail}}, "rule 1 is never reached: rule 0 has no When and always matches"},
		"two faults":     {Rules{{When: when, Do: "explode"}, {Do: Fail, Delay: never}}, `rule 0: Do is "explode": write Continue, Retry, Jump, Break or Fail; rule 1: Delay is only valid for Retry and Jump`},
	} {
		err := row.rules.Validate()
		if row.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.EqualError(t, err, "retryflow: invalid rules: "+row.want, name)
		}
	}
}
