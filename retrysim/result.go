package retrysim

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/goretry/retry/retrydialect/strict"
)

// A Result describes one run of a [System]. In JSON, durations are text, such as "1.5s".
type Result struct {
	Outcome Outcome `json:"outcome"`

	// Seconds has an element for each second of the run. The element counts the calls from outside
	// that began in this second.
	Seconds []Second `json:"seconds"`

	Services map[string]Load `json:"services"` // the load of each service, by its name

	growing bool   // the system has not recovered, and its queues get longer
	fails   string // the name of the service that loses the largest share of its calls from outside
}

// A Second counts the calls from outside that began in one second.
type Second struct {
	Calls  int `json:"calls"`
	Worked int `json:"worked"` // calls that succeeded within the Patience of their service
}

// A Load counts the requests to one service in a run.
type Load struct {
	Normal   float64 `json:"normal"`   // requests that would arrive in a second without failures
	Requests int     `json:"requests"` // requests that arrived
	Rejected int     `json:"rejected"` // requests refused by a full queue or a Fail event
	Waited   float64 `json:"waited"`   // the share of the requests that waited for a worker

	// MeanWait is how long a request waited for a worker. It is the mean of all requests that got a
	// worker, with or without a wait.
	MeanWait time.Duration `json:"mean_wait"`

	Peak int `json:"peak"` // the longest queue at the end of a second

	Seconds []LoadSecond `json:"seconds"`
}

// A LoadSecond counts the requests to one service in one second.
type LoadSecond struct {
	Calls  int `json:"calls"`  // calls from outside that began in this second
	Worked int `json:"worked"` // how many of these calls succeeded within the Patience

	Requests int     `json:"requests"` // requests that arrived
	Rejected int     `json:"rejected"` // requests refused by a full queue or a Fail event
	Queue    int     `json:"queue"`    // requests that wait for a worker at the end of the second
	Busy     float64 `json:"busy"`     // how many workers were busy, on average over the second

	// Wasted is the share of the work that was done for callers that had given up. It counts the
	// work that ended in this second.
	Wasted float64 `json:"wasted"`
}

func (l Load) MarshalJSON() ([]byte, error) {
	type plain Load
	return json.Marshal(struct {
		plain
		MeanWait strict.Duration `json:"mean_wait"`
	}{plain(l), strict.Duration(l.MeanWait)})
}

// load returns the counts of the service v in the first `seconds` seconds of the run. It multiplies
// all counts by `scale`, because the engine may simulate a part of a larger system.
func (v *service) load(seconds, scale int, normal float64) Load {
	l := Load{
		Normal:   normal * float64(scale),
		Seconds:  slices.Clone(v.rows[:seconds]),
		Waited:   float64(v.waited) / float64(max(1, v.requests)),
		MeanWait: time.Duration(v.wait / float64(max(1, v.started))),
	}
	for k := range l.Seconds {
		row := &l.Seconds[k]
		row.Calls *= scale
		row.Worked *= scale
		row.Requests *= scale
		row.Rejected *= scale
		row.Queue *= scale
		row.Busy *= float64(scale)
		l.Requests += row.Requests
		l.Rejected += row.Rejected
		l.Peak = max(l.Peak, row.Queue)
	}
	return l
}
