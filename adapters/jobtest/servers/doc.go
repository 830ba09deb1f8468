// Package servers starts the server of a queue for a single test. Each server has its own
// port and directory, so a test can stop or kill its server while other tests run.
//
//	server := servers.NATS(t, "")
//	conn, err := nats.Connect(server.Address)
//	server.Crash()
//	server.Start()
package servers
