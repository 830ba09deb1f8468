// Package quictest tests retrynet with the errors of real QUIC connections. It contains only tests.
package quictest
