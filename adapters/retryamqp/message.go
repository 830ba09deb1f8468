package retryamqp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/goretry/retry/retryjob"
)

// A message is a delivery together with the values of its headers.
type message struct {
	amqp.Delivery
	attempt int            // the number of the attempt that the delivery starts
	limit   int            // the message's own limit on attempts; 0 if the message has none
	began   time.Time      // the time from which MaxElapsed counts
	due     time.Time      // when the message may be handled; a zero time means now
	classes map[string]int // the number of failed attempts of each class
}

func (m message) job() retryjob.Job {
	return retryjob.Job{
		Key:         m.MessageId,
		Attempt:     m.attempt,
		MaxAttempts: m.limit,
		Began:       m.began,
		Classes:     m.classes,
	}
}

// messageOf returns the message of a delivery. Any header of the delivery may come from a producer,
// so messageOf corrects impossible counts. If a header is malformed, messageOf returns an error,
// and the message becomes a dead letter. Even then messageOf returns the message, because the dead
// letter is a copy of the message.
func messageOf(d amqp.Delivery) (message, error) {
	m := message{Delivery: d, attempt: AttemptOf(d), began: d.Timestamp}
	var errs []error
	get := func(name string) int64 {
		n, err := number(d.Headers, name)
		errs = append(errs, err)
		return n
	}
	get(attemptsHeader)
	m.classes = map[string]int{}
	if text, is := d.Headers[classesHeader].(string); is && !isDead(d) {
		if err := json.Unmarshal([]byte(text), &m.classes); err != nil {
			errs = append(errs, fmt.Errorf("header %s: %w", classesHeader, err))
		}
	}
	if began := get(beganHeader); began > 0 && !isDead(d) {
		m.began = time.UnixMilli(began)
	}
	if now := time.Now(); m.began.IsZero() || m.began.After(now) {
		m.began = now
	}
	if due := get(dueHeader); due > 0 {
		m.due = time.UnixMilli(due)
		// One more day is allowed, because another machine has written this header, and its clock may
		// be ahead.
		if time.Until(m.due) > longestDelay+24*time.Hour {
			errs = append(errs, fmt.Errorf("header %s: the time %s is more than a year from now",
				dueHeader, m.due.UTC().Format(time.RFC3339Nano)))
		}
	}
	m.limit = int(get(MaxAttemptsHeader))
	unread := errs[len(errs)-1]
	if unread == nil && m.limit < 1 && d.Headers[MaxAttemptsHeader] != nil {
		errs = append(errs, fmt.Errorf("header %s is %d: "+
			"write a whole number of at least 1, or leave the header out", MaxAttemptsHeader, m.limit))
	}
	return m, errors.Join(errs...)
}

// The method `publishing` returns a copy of m for another queue, with the given headers added. The
// copy leaves out headers and properties that describe only the present delivery. It also leaves
// out headers and properties that would send the copy to a wrong queue or end its wait early.
func (m message) publishing(attempts int, headers amqp.Table) amqp.Publishing {
	all := amqp.Table{}
	for name, value := range m.Headers {
		if !leftOut(name) {
			all[name] = value
		}
	}
	all[attemptsHeader] = int64(attempts)
	all[beganHeader] = m.began.UnixMilli()
	if len(m.classes) > 0 {
		text, _ := json.Marshal(m.classes) // encoding a map of numbers cannot fail
		all[classesHeader] = string(text)
	}
	maps.Copy(all, headers)
	return amqp.Publishing{
		Headers: all, DeliveryMode: amqp.Persistent,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority,
		CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo, MessageId: m.MessageId,
		Timestamp: m.Timestamp, Type: m.Type, AppId: m.AppId, Body: m.Body,
	}
}
