// Package retryprom exports retry metrics to Prometheus, from the counters of
// package retrylog.
//
//	var counters retrylog.Counters
//	policy.OnEvent = counters.OnEvent
//	counters.WatchBudget("payments", budget)
//	prometheus.MustRegister(retryprom.NewCollector("payments", &counters))
//
// Each metric has the label `policy`:
//
//	retry_calls_total                     calls that started
//	retry_retried_calls_total             calls that had a retry
//	retry_attempts_total                  attempts that started
//	retry_retries_total                   attempts after the first
//	retry_scheduled_retries_total{class}  retries that were scheduled, by retry.Class; "": no class
//	retry_stops_total{reason}             calls that stopped, by retry.Reason
//	retry_waited_seconds_total            planned delays of all retries
//	retry_budget_left{budget}             retries left in a Budget
//
// Each reason that package retrylog knows is exported from the start, with the value 0. So the
// functions rate and increase of Prometheus do not miss the first call that stops for this reason.
// A class is exported only after its first failure. An event from a newer version may have a reason
// that package retrylog does not know. Such a reason is exported only after the first call that
// stopped for it. After the first 64 classes, all further classes are counted as "other". After the
// first 64 reasons, all further reasons are counted as "other".
package retryprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goretry/retry/retrylog"
)

// NewCollector returns a Collector that exports the Counters c. In all metrics, the label `policy`
// has the value of the parameter `policy`. Pass a name for the policy, or for the group of
// policies, whose events c counts. You can register several Collectors if each of them has a
// different value of `policy`.
func NewCollector(policy string, c *retrylog.Counters) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("retry_"+name, help, labels, prometheus.Labels{"policy": policy})
	}
	return &collector{
		counters:     c,
		calls:        desc("calls_total", "Calls that began."),
		retriedCalls: desc("retried_calls_total", "Calls that had at least one retry."),
		attempts:     desc("attempts_total", "Attempts that started."),
		retries:      desc("retries_total", "Attempts after the first of a call."),
		scheduled: desc("scheduled_retries_total",
			"Retries that were scheduled, by the class of the failure.", "class"),
		stops:      desc("stops_total", "Calls that stopped, by reason.", "reason"),
		waited:     desc("waited_seconds_total", "Planned delays of all scheduled retries."),
		budgetLeft: desc("budget_left", "Retries left in a budget.", "budget"),
	}
}

type collector struct {
	counters *retrylog.Counters

	calls, retriedCalls, attempts, retries, scheduled, stops, waited, budgetLeft *prometheus.Desc
}

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.calls, c.retriedCalls, c.attempts, c.retries,
		c.scheduled, c.stops, c.waited, c.budgetLeft,
	} {
		to <- desc
	}
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.counters.Snapshot()
	count := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- metric(desc, prometheus.CounterValue, value, labels)
	}
	count(c.calls, float64(s.Calls))
	count(c.retriedCalls, float64(s.Retried))
	count(c.attempts, float64(s.Attempts))
	count(c.retries, float64(s.Retries))
	for class, n := range s.Scheduled {
		count(c.scheduled, float64(n), class)
	}
	for reason, n := range s.Stops {
		count(c.stops, float64(n), string(reason))
	}
	count(c.waited, s.WaitedSeconds)
	for name, left := range s.Budgets {
		if left >= 0 { // -1 means a nil Budget, which is unlimited
			to <- metric(c.budgetLeft, prometheus.GaugeValue, float64(left), []string{name})
		}
	}
}

// metric returns a metric with the given value and labels. If a label is not valid UTF-8, the
// metric makes the scrape fail.
func metric(
	desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string,
) prometheus.Metric {
	m, err := prometheus.NewConstMetric(desc, kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
