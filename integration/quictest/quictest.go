// Package quictest tests retrynet on the errors of real QUIC connections. It
// has nothing but tests.
package quictest
