// Package retrysim simulates an outage of a system of services, and shows what their retry
// policies do to it. A [System] lists services that call each other, each call under a
// [retry.Policy], and the events of an outage: workers hang, work gets slower, requests
// fail, or more calls arrive. [Explain] says whether the system recovers afterwards:
//
//	web comes back up to 147/s, 53% of your load; you run at 280/s
//	stays down (10 of 10 runs)
//
// [Check] is for tests:
//
//	err := retrysim.Check(system,
//		retrysim.RecoversWithin(30*time.Second),
//		retrysim.LoadAtMost("payments", 1.5))
//
// Time is virtual, and nothing is sent. [retry.Policy.Next] decides about each retry.
// The same system and the same seed give the same result on every platform.
//
// # What the simulation cannot tell
//
// A system that recovers in the simulation may stay down in production: caches,
// connections, garbage collection, autoscaling, load balancers and locks are not
// simulated. A system that stays down in the simulation has a loop of timeouts, queues
// and retries that does not end by itself.
//
// Do not trust the seconds. The time of a recovery depends on the spare capacity, which
// few people know to within 5 %. The Margin of an [Answer], which is the rate of calls up to
// which the system recovers, depends less on the spare capacity.
//
// Real systems have hidden queues. The backlog of a listener, a connection pool and
// goroutines without a limit are unlimited queues, and so a Queue of 0 is unlimited.
//
// Workers take requests in the order of arrival. A service whose requests share the
// processors has no such order, and its simulation is less exact.
package retrysim
