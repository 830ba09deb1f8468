package retry_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// unassigned is the message in an error variable that no iteration has
// assigned.
const unassigned = "the body of the Loop did not assign its error variable: assign it with =, := declares another"

// lastOf returns the last event, which must be of this kind.
func lastOf(t *testing.T, told *watch, kind retry.EventKind) retry.Event {
	t.Helper()
	require.NotEmpty(t, told.events)
	last := told.events[len(told.events)-1]
	require.Equal(t, kind, last.Kind)
	return last
}

// watched is a policy of five attempts, one second apart, with a Budget of
// five retries to which a success adds one.
func watched() (p retry.Policy, told *watch) {
	p, told = everySecond, new(watch)
	p.MaxAttempts = 5
	p.OnEvent = told.event
	p.Budget = retry.NewBudget(5, 1)
	return p, told
}

func TestLoopTurns(t *testing.T) {
	bubble(t, "each iteration gets the number of its attempt", func(t *testing.T) {
		start := time.Now()
		var err error
		var turns []int
		for attempt, ctx := range retry.Loop(t.Context(), everySecond, &err) {
			turns = append(turns, attempt)
			assert.True(t, ctx == t.Context())
			err = errDial
		}
		assert.Equal(t, []int{1, 2, 3}, turns)
		assert.Equal(t, 2*time.Second, time.Since(start))
		e := stopped(t, err)
		assert.Equal(t, &retry.Error{Reason: retry.ReasonExhausted, Attempts: 3, Waited: 2 * time.Second, Delay: time.Second, Err: errDial}, plain(e))
	})
	bubble(t, "nil ends the loop", func(t *testing.T) {
		var err error
		turns := 0
		for attempt := range retry.Loop(t.Context(), everySecond, &err) {
			turns++
			if err = errDial; attempt == 2 {
				err = nil
			}
		}
		require.NoError(t, err)
		assert.Equal(t, 2, turns)
	})
	bubble(t, "continue", func(t *testing.T) {
		var err error
		turns := 0
		for range retry.Loop(t.Context(), retry.Policy{MaxAttempts: 4}, &err) {
			turns++
			if err = errDial; turns < 4 {
				continue
			}
			err = nil
		}
		require.NoError(t, err)
		assert.Equal(t, 4, turns)
	})
	bubble(t, "without iteration variables", func(t *testing.T) {
		var err error
		turns := 0
		for range retry.Loop(t.Context(), everySecond, &err) {
			turns++
			err = errDial
		}
		assert.Equal(t, 3, turns)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	})
	bubble(t, "no iteration if the context has ended", func(t *testing.T) {
		for _, before := range []error{nil, errShutdown} {
			err := before
			for range retry.Loop(canceledBy(errShutdown)(t.Context()), everySecond, &err) {
				t.Error("the body runs")
			}
			e := stopped(t, err)
			assert.Equal(t, &retry.Error{Reason: retry.ReasonCanceled, Cause: e.Cause}, plain(err))
			assert.ErrorIs(t, err, errShutdown)
		}
	})
	bubble(t, "any number of results", func(t *testing.T) {
		get := func(attempt int) (status int, body string, err error) {
			if attempt < 3 {
				return 503, "busy", errDial
			}
			return 200, "hello", nil
		}
		var status int
		var body string
		var err error
		for attempt := range retry.Loop(t.Context(), everySecond, &err) {
			status, body, err = get(attempt)
		}
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, "hello", body)
	})
	bubble(t, "AttemptTimeout: the context of each iteration ends with it", func(t *testing.T) {
		p := everySecond
		p.AttemptTimeout = time.Minute
		start := time.Now()
		var err error
		var turns []context.Context
		for _, ctx := range retry.Loop(t.Context(), p, &err) {
			for _, earlier := range turns {
				assert.ErrorIs(t, earlier.Err(), context.Canceled)
			}
			turns = append(turns, ctx)
			if err = errDial; len(turns) == 3 {
				<-ctx.Done()
				err = ctx.Err()
			}
		}
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second+time.Minute, time.Since(start))
	})
	bubble(t, "AttemptTimeout: the context ends when the body breaks", func(t *testing.T) {
		var err error
		var turn context.Context
		for _, ctx := range retry.Loop(t.Context(), retry.Policy{AttemptTimeout: time.Minute}, &err) {
			turn = ctx
			break
		}
		assert.ErrorIs(t, turn.Err(), context.Canceled)
	})
	bubble(t, "the same sequence again starts anew", func(t *testing.T) {
		var err error
		sequence := retry.Loop(t.Context(), everySecond, &err)
		for range 2 {
			start, turns := time.Now(), 0
			for attempt := range sequence {
				turns++
				assert.Equal(t, turns, attempt)
				err = errDial
			}
			assert.Equal(t, 3, turns)
			assert.Equal(t, 2*time.Second, time.Since(start))
			assert.Equal(t, 3, stopped(t, err).Attempts)
			assert.Same(t, errDial, stopped(t, err).Err)
		}
		for range sequence {
			err = nil
		}
		assert.NoError(t, err)
	})
	bubble(t, "an error from before the loop is none of its own", func(t *testing.T) {
		err := errShutdown
		turns := 0
		for range retry.Loop(t.Context(), everySecond, &err) {
			turns++
			err = nil
		}
		assert.NoError(t, err)
		assert.Equal(t, 1, turns)
	})
	bubble(t, "called by iter.Pull2", func(t *testing.T) {
		start := time.Now()
		p, told := watched()
		var err error
		next, stop := iter.Pull2(retry.Loop(t.Context(), p, &err))
		for want := 1; want <= 3; want++ {
			attempt, ctx, ok := next()
			require.True(t, ok)
			assert.Equal(t, want, attempt)
			assert.True(t, ctx == t.Context())
			err = errDial
		}
		stop()
		assert.Same(t, errDial, err)
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Equal(t, retry.ReasonLeft, lastOf(t, told, retry.Stopped).Reason)
	})
}

func TestLoopVariableThatIsNotAssigned(t *testing.T) {
	fail := func() error { return errDial }
	bubble(t, "shadowed in the first iteration: reported, never taken for success", func(t *testing.T) {
		for _, before := range []error{nil, errShutdown} {
			p, told := watched()
			tokens(p.Budget)
			err := before
			turns := 0
			for range retry.Loop(t.Context(), p, &err) {
				turns++
				err := fail()
				_ = err
			}
			assert.Equal(t, 1, turns)
			e := stopped(t, err)
			assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Attempts: 1, Cause: e.Cause}, plain(err))
			assert.EqualError(t, e.Cause, unassigned)
			assert.EqualError(t, err, "retry: invalid call after 1 attempt ("+unassigned+")")
			assert.Equal(t, counts{1, 1, 0, 1}, told.counts())
			last := lastOf(t, told, retry.Stopped)
			assert.Equal(t, retry.ReasonInvalid, last.Reason)
			assert.EqualError(t, last.Cause, unassigned)
			assert.NoError(t, last.Err, "as Error.Err")
			assert.EqualError(t, told.of(retry.AttemptFinished)[0].Err, unassigned, "the iteration is no success")
			assert.Zero(t, tokens(p.Budget), "no success is counted")
		}
	})
	bubble(t, "shadowed, and it succeeds: reported all the same", func(t *testing.T) {
		var err error
		for range retry.Loop(t.Context(), everySecond, &err) {
			var err error
			_ = err
		}
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	})
	bubble(t, "shadowed under an invalid policy: both faults", func(t *testing.T) {
		var err error
		for range retry.Loop(t.Context(), retry.Policy{MaxAttempts: -2}, &err) {
			err := fail()
			_ = err
		}
		assert.ErrorContains(t, err, unassigned)
		assert.ErrorContains(t, err, "MaxAttempts is -2")
		assert.NotContains(t, err.Error(), "\n")
	})
	bubble(t, "shadowed, and an outer loop gets it: permanent", func(t *testing.T) {
		turns := 0
		err := retry.Do(t.Context(), everySecond, func(ctx context.Context) (err error) {
			for range retry.Loop(ctx, everySecond, &err) {
				turns++
				err := fail()
				_ = err
			}
			return err
		})
		assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
		assert.Equal(t, 1, turns)
	})
	bubble(t, "continue before the variable is assigned", func(t *testing.T) {
		var err error
		turns := 0
		for range retry.Loop(t.Context(), everySecond, &err) {
			if turns++; turns > 0 {
				continue
			}
			err = nil
		}
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.Equal(t, 1, turns)
	})
	bubble(t, "until the first iteration assigns the variable, it says so", func(t *testing.T) {
		err := errShutdown
		for attempt := range retry.Loop(t.Context(), everySecond, &err) {
			if attempt == 1 {
				assert.EqualError(t, err, unassigned)
			} else {
				assert.Same(t, errDial, err, "from the second iteration on it holds the previous error")
			}
			err = errDial
		}
		assert.Equal(t, 3, stopped(t, err).Attempts)
	})
	bubble(t, "assigned only in the first iteration: each later one failed with that error", func(t *testing.T) {
		start := time.Now()
		var told watch
		p := everySecond
		p.OnEvent = told.event
		var err error
		for attempt := range retry.Loop(t.Context(), p, &err) {
			if attempt == 1 {
				err = errDial
			}
		}
		e := stopped(t, err)
		assert.Equal(t, retry.ReasonExhausted, e.Reason)
		assert.Same(t, errDial, e.Err)
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Equal(t, counts{3, 3, 2, 1}, told.counts())
		for _, finished := range told.of(retry.AttemptFinished) {
			assert.Same(t, errDial, finished.Err)
		}
	})
	bubble(t, "shadowed from the second iteration on: never taken for success", func(t *testing.T) {
		var err error
		turns := 0
		for attempt := range retry.Loop(t.Context(), everySecond, &err) {
			turns++
			if attempt == 1 {
				err = errDial
			} else {
				var err error
				_ = err
			}
		}
		assert.Equal(t, 3, turns)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	})
	bubble(t, "assigned later: the second iteration decides", func(t *testing.T) {
		var err error
		for attempt := range retry.Loop(t.Context(), everySecond, &err) {
			if err = errDial; attempt == 2 {
				err = nil
			}
		}
		assert.NoError(t, err)
	})
	bubble(t, "nil err pointer: ranging over the Loop panics", func(t *testing.T) {
		const text = "retry: nil err in Loop: write retry.Loop(ctx, policy, &err), and assign err in the body"
		for _, ctx := range []context.Context{t.Context(), canceledBy(nil)(t.Context())} {
			sequence := retry.Loop(ctx, everySecond, nil)
			assert.PanicsWithValue(t, text, func() {
				for range sequence {
					t.Error("the body runs")
				}
			})
		}
	})
	bubble(t, "nil context: no iteration", func(t *testing.T) {
		var err error
		for range retry.Loop(noContext, everySecond, &err) {
			t.Error("the body runs")
		}
		assert.EqualError(t, err, "retry: invalid call before the first attempt (nil context)")
	})
}

// leave says how the body of a Loop is left: in which iteration, and with what
// error.
type leave struct {
	turn   int
	assign bool // before it leaves the loop
	err    error
}

// body does what every iteration in the bodies below does, and reports whether
// to leave.
func (l leave) body(attempt int, err *error) bool {
	if attempt < l.turn {
		*err = errDial
		return false
	}
	if l.assign {
		*err = l.err
	}
	return true
}

func TestLoopLeftEarly(t *testing.T) {
	ways := map[string]func(ctx context.Context, p retry.Policy, err *error, l leave){
		"break": func(ctx context.Context, p retry.Policy, err *error, l leave) {
			for attempt := range retry.Loop(ctx, p, err) {
				if l.body(attempt, err) {
					break
				}
			}
		},
		"return": func(ctx context.Context, p retry.Policy, err *error, l leave) {
			for attempt := range retry.Loop(ctx, p, err) {
				if l.body(attempt, err) {
					return
				}
			}
		},
		"goto": func(ctx context.Context, p retry.Policy, err *error, l leave) {
			for attempt := range retry.Loop(ctx, p, err) {
				if l.body(attempt, err) {
					goto left
				}
			}
		left:
		},
		"break of an outer loop": func(ctx context.Context, p retry.Policy, err *error, l leave) {
			turns := 0
		outer:
			for {
				if turns++; turns > 1 {
					panic("the outer loop goes on")
				}
				for attempt := range retry.Loop(ctx, p, err) {
					if l.body(attempt, err) {
						break outer
					}
				}
			}
		},
		"continue of an outer loop": func(ctx context.Context, p retry.Policy, err *error, l leave) {
		outer:
			for turns := range 2 {
				if turns == 1 {
					return
				}
				for attempt := range retry.Loop(ctx, p, err) {
					if l.body(attempt, err) {
						continue outer
					}
				}
			}
		},
	}
	for name, way := range ways {
		for _, row := range []struct {
			name   string
			before error
			leave  leave
			want   error // the value of err after the loop
			reason retry.Reason
		}{
			{"iteration 1, unassigned: as before the loop, nil", nil, leave{1, false, nil}, nil, retry.ReasonSuccess},
			{"iteration 1, unassigned: as before the loop, an error", errShutdown, leave{1, false, nil}, errShutdown, retry.ReasonLeft},
			{"iteration 1, with an error: as the body left it", nil, leave{1, true, errDial}, errDial, retry.ReasonLeft},
			{"iteration 1, with nil: as the body left it", errShutdown, leave{1, true, nil}, nil, retry.ReasonSuccess},
			{"iteration 2, unassigned: the previous error", nil, leave{2, false, nil}, errDial, retry.ReasonLeft},
			{"iteration 2, with an error: as the body left it", nil, leave{2, true, errShutdown}, errShutdown, retry.ReasonLeft},
			{"iteration 2, with nil: as the body left it", nil, leave{2, true, nil}, nil, retry.ReasonSuccess},
			{"the last iteration, with an error: as the body left it", nil, leave{5, true, errShutdown}, errShutdown, retry.ReasonLeft},
		} {
			bubble(t, name+"/"+row.name, func(t *testing.T) {
				p, told := watched()
				tokens(p.Budget)
				for range row.leave.turn {
					p.Budget.Put() // one more than there are retries
				}
				start := time.Now()
				err := row.before
				way(t.Context(), p, &err, row.leave)
				assert.True(t, row.want == err, "err is %v; want %v", err, row.want)
				assert.Equal(t, time.Duration(row.leave.turn-1)*time.Second, time.Since(start))
				n := row.leave.turn
				assert.Equal(t, counts{n, n, n - 1, 1}, told.counts())
				last := lastOf(t, told, retry.Stopped)
				assert.Equal(t, row.reason, last.Reason)
				assert.Equal(t, n, last.Attempt)
				assert.True(t, row.want == told.of(retry.AttemptFinished)[n-1].Err)
				put := 0
				if row.reason == retry.ReasonSuccess {
					put = 1
				}
				assert.Equal(t, 1+put, tokens(p.Budget), "a success puts a token back, an error does not")
			})
		}
		bubble(t, name+"/under an invalid policy: err as the body left it, and the event has the fault", func(t *testing.T) {
			for _, result := range []error{nil, errDial} {
				var told watch
				var err error
				way(t.Context(), retry.Policy{MaxAttempts: -2, OnEvent: told.event}, &err, leave{1, true, result})
				assert.True(t, result == err)
				assert.Equal(t, counts{1, 1, 0, 1}, told.counts())
				last, want := lastOf(t, &told, retry.Stopped), retry.ReasonLeft
				if result == nil {
					want = retry.ReasonSuccess
				}
				assert.Equal(t, want, last.Reason)
				assert.True(t, result == last.Err)
				assert.ErrorContains(t, last.Cause, "MaxAttempts is -2")
			}
		})
		bubble(t, name+"/in a context that has ended: err as the body left it", func(t *testing.T) {
			p, told := watched()
			ctx, cancel := context.WithCancel(t.Context())
			p.OnEvent = func(ctx context.Context, e retry.Event) { told.event(ctx, e); cancel() }
			var err error
			way(ctx, p, &err, leave{1, true, errDial})
			assert.Same(t, errDial, err)
			assert.Equal(t, retry.ReasonLeft, lastOf(t, told, retry.Stopped).Reason)
		})
	}
}

func TestLoopOverANamedResult(t *testing.T) {
	get := func(attempt, succeedAt int) (int, error) {
		if attempt < succeedAt {
			return -attempt, errDial
		}
		return attempt, nil
	}
	bubble(t, "assigned", func(t *testing.T) {
		f := func(ctx context.Context, succeedAt int) (v int, err error) {
			for attempt := range retry.Loop(ctx, everySecond, &err) {
				v, err = get(attempt, succeedAt)
			}
			return v, err
		}
		v, err := f(t.Context(), 2)
		require.NoError(t, err)
		assert.Equal(t, 2, v)
		v, err = f(t.Context(), 9)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, -3, v)
	})
	bubble(t, "returned by the body: err as the body left it", func(t *testing.T) {
		f := func(ctx context.Context, succeedAt int) (v int, err error) {
			for attempt := range retry.Loop(ctx, everySecond, &err) {
				if v, err = get(attempt, succeedAt); attempt == 2 {
					return v, err
				}
			}
			return 0, errors.New("not reached")
		}
		v, err := f(t.Context(), 2)
		require.NoError(t, err)
		assert.Equal(t, 2, v)
		v, err = f(t.Context(), 9)
		assert.Same(t, errDial, err)
		assert.Equal(t, -2, v)
	})
	bubble(t, "returned by the first iteration, unassigned: what it returns", func(t *testing.T) {
		for _, result := range []error{nil, errDial} {
			p, told := watched()
			f := func(ctx context.Context) (err error) {
				for range retry.Loop(ctx, p, &err) {
					return result
				}
				return errors.New("not reached")
			}
			assert.True(t, result == f(t.Context()))
			want := retry.ReasonSuccess
			if result != nil {
				want = retry.ReasonLeft
			}
			assert.Equal(t, want, lastOf(t, told, retry.Stopped).Reason, "a return assigns a named result")
		}
	})
	bubble(t, "a deferred function sees the Error", func(t *testing.T) {
		var seen error
		f := func(ctx context.Context) (err error) {
			defer func() { seen = err }()
			for range retry.Loop(ctx, everySecond, &err) {
				err = errDial
			}
			return err
		}
		err := f(t.Context())
		assert.Same(t, stopped(t, err), seen)
	})
}
