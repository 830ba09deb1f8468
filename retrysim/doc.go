// Package retrysim simulates what retry policies do to a system of services, before
// an outage does. A [System] is services that call each other, each call under a
// [retry.Policy], and what goes wrong: workers that hang, work that slows down,
// requests that fail, more calls. [Explain] says whether the system comes back:
//
//	web comes back up to 147/s, 53% of your load; you run at 280/s
//	stays down (10 of 10 runs)
//
// [Check] is for tests:
//
//	err := retrysim.Check(system, retrysim.RecoversWithin(30*time.Second), retrysim.LoadAtMost("payments", 1.5))
//
// Time is virtual, and nothing is sent. Attempts are decided by [retry.Policy.Next].
// The same system and the same seed give the same result on every platform.
//
// # What not to conclude
//
// A system that comes back here may stay down in production: caches, connections,
// garbage collection, autoscaling, load balancers and locks are not simulated. What
// stays down here has a loop of timeouts, queues and retries that does not end.
//
// Do not trust seconds: how long a recovery takes depends on spare capacity, which
// few people know to 5 %. The Margin of an [Answer] depends on it less.
//
// Queues hide. The backlog of a listener, a pool of connections and goroutines
// without a limit are unlimited queues, and so a Queue that is not set is unlimited.
// Workers take requests in the order in which they came; a service without a pool,
// whose requests share processors, does not, and is not simulated well.
package retrysim
