package retrydialect_test

import (
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

func ExampleToGRPC() {
	config, err := retrydialect.ToGRPC(retry.Default(), "shop.Orders", "UNAVAILABLE")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config)

	policy := retry.Default()
	policy.MaxElapsed = time.Minute
	policy.MaxDelay = time.Second
	_, err = retrydialect.ToGRPC(policy, "shop.Orders", "UNAVAILABLE")
	fmt.Println(err)
	// Output:
	// {"methodConfig":[{"name":[{"service":"shop.Orders"}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.2s","maxBackoff":"5s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]}
	// retrydialect: gRPC service config: MaxElapsed (max_elapsed) is 1m0s: write 0s (gRPC has no such bound; a deadline of the context is one); MaxDelay (max_delay) is 1s: write 0s, or at least 1.92s, which the delays reach: gRPC draws up to 20 % above its maxBackoff
}

func ExampleToTemporal() {
	policy := retry.Policy{MaxAttempts: 10, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute}
	exported, err := retrydialect.ToTemporal(policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", exported)
	text, err := json.Marshal(exported)
	fmt.Println(string(text), err)
	// Output:
	// {InitialInterval:1s BackoffCoefficient:2 MaximumInterval:1m0s MaximumAttempts:10}
	// {"initialInterval":"1s","backoffCoefficient":2,"maximumInterval":"60s","maximumAttempts":10} <nil>
}
