package main

import (
	"context"
	"errors"

	"github.com/goretry/retry/retryflow"
)

var (
	errConflict = errors.New("conflict: another writer was first")
	errLost     = errors.New("the answer of the store is lost")
)

// isConflict reports whether a write may be repeated: it was not made, or its
// answer was lost and making it twice does no harm.
func isConflict(err error) bool { return errors.Is(err, errConflict) || errors.Is(err, errLost) }

// A store keeps the items of pages. Each write names the version that it has seen,
// and conflicts if another writer has written since, which happens at two of five
// writes. Every seventh write, if it does not conflict, stores its items, but its
// answer is lost.
type store struct {
	rows    []string
	pages   map[int]bool // which pages are stored
	version int
	writes  int
}

func newStore() *store { return &store{pages: map[int]bool{}} }

// put stores the page that was fetched. A page that is already there, because only
// the answer was lost, is not stored again.
func (s *store) put(_ context.Context, state retryflow.State) retryflow.Outcome {
	number := state["page"].(int)
	seen := s.version
	if s.pages[number] {
		return retryflow.Outcome{Result: number}
	}
	s.writes++
	if s.writes%5 < 2 {
		s.version++ // the other writer
	}
	if s.version != seen {
		return retryflow.Outcome{Result: number, Err: errConflict}
	}
	s.rows = append(s.rows, state["fetched"].(page).Items...)
	s.pages[number] = true
	s.version++
	if s.writes%7 == 0 {
		return retryflow.Outcome{Result: number, Err: errLost}
	}
	return retryflow.Outcome{Result: number}
}
