package retryhttp

// Clone returns a Transport with the fields of t, which may be changed. If Budgets is nil, the
// clone takes its retries from the same Budgets as t: both count what a target has left.
func (t *Transport) Clone() *Transport {
	origin := t
	if t.origin != nil {
		origin = t.origin
	}
	return &Transport{
		Base:         t.Base,
		Policy:       t.Policy,
		Budgets:      t.Budgets,
		Idempotent:   t.Idempotent,
		Prepare:      t.Prepare,
		Check:        t.Check,
		Advise:       t.Advise,
		StallTimeout: t.StallTimeout,
		Gate:         t.Gate,
		Resume:       t.Resume,
		origin:       origin,
	}
}
