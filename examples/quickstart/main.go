// Quickstart is the first program of the README: a GET that is retried while its
// server is down.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func main() {
	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Default()}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // for the whole call
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:8080/orders", nil)
	if err != nil {
		panic(err)
	}
	resp, err := retryhttp.Result(client.Do(req)) // a 503 that stays is an error
	if err != nil {
		fmt.Println(retry.ReasonOf(err))
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
}
