// Package formatstest compares what the tool reads and writes with the types that
// other systems read their settings with.
package formatstest
