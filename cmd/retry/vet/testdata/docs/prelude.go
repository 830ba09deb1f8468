// Package docs declares the names that the snippets of docs/vet.md and of the tests use.
package docs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
	"github.com/goretry/retry/retrysql"
)

var _ = []any{
	bufio.NewReader, bytes.NewReader, sha256.New, sql.ErrNoRows, errors.Is, flag.Int, fmt.Errorf, io.EOF, log.Println, rand.New, http.Get, exec.Command, signal.Stop,
	strconv.Itoa, strings.NewReader, &sync.Mutex{}, &atomic.Bool{}, time.Second, retryhttp.Check, retrysql.Transient,
	backoff.NewExponentialBackOff, json.NewDecoder, math.Pow, os.Create, sse.ResumeByGET,
}

func refresh(ctx context.Context, ping func(context.Context) error) error {
	return retry.Do(ctx, retry.Default(), ping)
}

var budget = &retry.Budget{Size: 10, Ratio: 0.1}

type rewinder interface {
	io.Reader
	Rewind() error
}

type source struct{ body io.Reader }

func (s *source) restart() { s.body = bytes.NewReader(nil) }

func Snippet(
	ctx context.Context, policy retry.Policy, db *sql.DB, conn *pgx.Conn,
	ping, confirm func(context.Context) error,
	upload func(context.Context, io.Reader) error,
	fetch func(context.Context) ([]string, error),
	save func(pgx.Tx) error,
	data []byte, url string, pings []func(context.Context) error, results chan error,
	all []string, jitter retry.Jitter,
) (err error) {
	{
		// the snippet
	}
	return use(all)
}

func use([]string) error { return nil }
