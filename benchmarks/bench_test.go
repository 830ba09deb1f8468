package main

import "testing"

func BenchmarkCall(b *testing.B) {
	for _, w := range works {
		b.Run(w.name, func(b *testing.B) {
			for _, l := range libraries {
				if bench := w.bench(l); bench != nil {
					b.Run("lib="+l.name, bench)
				}
			}
		})
	}
}

func BenchmarkHTTP(b *testing.B) {
	for _, w := range httpWorks {
		b.Run(w.name, func(b *testing.B) {
			for _, c := range httpClients {
				b.Run("lib="+c.name, w.bench(c))
			}
		})
	}
}

// BenchmarkWaiting needs -benchtime 1x, because each iteration makes 100,000 calls.
func BenchmarkWaiting(b *testing.B) {
	for _, w := range waiters() {
		b.Run("lib="+w.name, func(b *testing.B) {
			var sum waited
			for range b.N {
				one, err := measureApart(w.name, waitingCalls)
				if err != nil {
					b.Fatal(err)
				}
				sum.Bytes += one.Bytes
				sum.Cancel += one.Cancel
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(sum.Bytes/float64(b.N), "B/call")
			b.ReportMetric(sum.Cancel/float64(b.N), "ns/cancel")
		})
	}
}
