// Package retrysim simulates an outage of a system of services and shows what retry policies do
// to the system. A [System] lists services that call each other. Each call has a [retry.Policy].
// The System also lists the events of an outage: workers hang, work gets slower, requests fail,
// or more calls arrive. [Explain] says whether the system recovers after these events:
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
// Do not trust the number of seconds until a recovery. It depends on the spare capacity, which
// few people know to within 5 %. Trust the Margin of an [Answer] more. It is the highest rate of
// calls at which the system still recovers.
//
// Real systems have hidden queues: the backlog of a listener, the callers that wait for a
// connection from a pool, and goroutines whose number is not limited. Few programs limit these
// queues, so a Queue of 0 is unlimited in the simulation.
//
// Workers take requests in the order of arrival. If the requests of a service share its
// processors instead, the simulation is less exact.
package retrysim
