package policyfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
)

// readNATS reads the settings of a JetStream consumer.
func readNATS(f *form) {
	f.attempts = cmp.Or(f.whole("max_deliver", -1, math.MaxInt32, -1), retry.Unlimited)
	f.delays = retry.Schedule{f.time("ack_wait", 1, 30*time.Second)}
	if list := list[json.RawMessage](f, "backoff", "a list of delays"); list != nil {
		f.delays = nil
		for i, value := range list {
			d, ok := f.times.parse(value)
			if !ok || d < 1 {
				f.fault(fmt.Sprintf("backoff[%d]", i), fmt.Sprintf("%.60s", value), f.times.write)
			}
			f.delays = append(f.delays, d)
		}
		if f.attempts > 0 && len(list) > f.attempts {
			f.fault("backoff", fmt.Sprintf("a list of %d", len(list)),
				fmt.Sprintf("at most max_deliver delays, %d", f.attempts))
		}
	}
	f.b.note("max_deliver",
		"each delay starts at the delivery, so it includes the time of the work; after a Nak the "+
			"message comes again at once")
	kubernetes := f.textAt(f.b.beside, "kind") == "Consumer"
	if kubernetes && !f.isSet("ack_wait") && !f.isSet("backoff") {
		f.delays = retry.Schedule{time.Millisecond}
		f.b.warn(shortDelays, "max_deliver",
			"ackWait: it is left out, and the default of the CRD is 1ns: a message that is not "+
				"acknowledged within about 1ms is delivered again; set ackWait")
	}
	if least := f.delays[0]; least < time.Millisecond {
		f.b.warn(shortDelays, "ack_wait",
			fmt.Sprintf("ack_wait: the first delay is %v: numbers are nanoseconds", least))
	}
	isPolicy := func(p string) bool { return p == "none" || p == "all" || p == "explicit" }
	policy := take(f, "ack_policy", `"none", "all" or "explicit"`, "none", isPolicy)
	if policy == "none" && f.attempts != 1 {
		f.attempts = 1
		f.b.warn(noEffect, "max_deliver",
			"this policy has no effect: ack_policy is none, which is also its default, so nothing is "+
				"delivered again; set it to explicit")
	}
	// Ignore the other keys of a consumer: there are many, and new versions of NATS add more. Only a
	// key that looks misspelled is left, and becomes a finding.
	for _, key := range f.untaken() {
		if nearest(key, []string{"max_deliver", "ack_wait", "backoff", "ack_policy"}) == "" {
			f.skip("", key)
		}
	}
}
