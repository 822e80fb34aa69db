package discordsim

import (
	"net/http"
	"time"
)

// teach adds to a response the lessons that the client learns when it reads the response.
func (w *World) teach(response *Response, x *exchange) {
	if response.lost {
		if x.bucket != nil {
			x.bucket.lost = true
		}
		return
	}
	hold := lesson{gate: x.refusal.gate, honesty: silent, made: x.call.Now}
	if hold.gate != nil {
		hold.honesty, hold.wait = compareRefusal(response, x.refusal.retry)
		hold.shape = x.shape()
		if hold.honesty == honest {
			hold.late = x.late
		}
		if hold.late > 0 {
			hold.doubtful = hold.gate.doubtful(x.late, x.announced)
		}
	}
	for _, g := range x.early {
		response.addLesson(lesson{gate: g, early: true, made: x.call.Now})
	}
	b := x.bucket
	if b == nil || b.counter == nil {
		response.addLesson(hold)
		return
	}
	// Headers name the end of a window, but they do not say when the next place of a sliding bucket becomes free. A client
	// derives that time from its own requests, and is blamed only if they alone fill the bucket.
	truth := stated(b.counter, x.call.Now)
	description := lesson{
		gate: &b.gate, rule: x.rule, honesty: compareDescription(response.Header, truth),
		left: truth.Remaining, wait: truth.NextAfter, taken: b.taken, made: x.call.Now,
	}
	description.measures = x.refusal.gate == nil && measures(b.counter.Quota(), truth)
	if description.honesty != honest || b.counter.Quota().Kind != KindFixed {
		description.left, description.wait = 0, 0
	} else {
		description.ends = x.refusal.gate == nil
	}
	if description.honesty == honest && b.counter.Quota().NamesNext && x.refusal.gate == nil {
		spent := truth.Limit - truth.Remaining
		description.reading = &reading{sent: x.call.Request.SentAt, after: truth.ResetAfter, spent: spent}
	}
	if x.refusal.gate == nil && description.honesty == honest {
		description.timed = truth.ResetAfter
		description.lags = truth.Remaining > b.counter.State(x.call.Now).Remaining
	}
	switch {
	case hold.gate == description.gate:
		response.addLesson(bothLessons(hold, description))
	case description.honesty == silent && response.Status >= http.StatusBadRequest:
		response.addLesson(hold) // from an error without headers a client does not conclude that there is no limit
	default:
		response.addLesson(hold)
		response.addLesson(description)
	}
}

// measures reports whether an answer shows how long a request may occupy a place. In the middle of a window, or while
// the place of an earlier request is taken, no answer shows this time.
func measures(quota Quota, stated State) bool {
	partly := quota.Kind == KindFixed && !quota.Aligned || quota.NamesNext
	return !partly || stated.ResetAfter >= quota.Period-time.Millisecond
}

func (r *Response) addLesson(l lesson) {
	if l.gate != nil {
		r.lessons = append(r.lessons, l)
	}
}

// bothLessons combines the two lessons of a 429 of the bucket: its wait, and its limit headers. The wait counts. If the
// 429 names no wait, the limit headers count instead.
func bothLessons(hold, description lesson) lesson {
	hold.rule = description.rule
	switch {
	case hold.honesty == silent && description.honesty == honest:
		description.wait = max(description.wait, hold.wait)
		return description
	case description.honesty == falsified:
		hold.honesty = falsified
	}
	return hold
}

// Lose records that the client will never read the answer.
func (w *World) Lose(response *Response) {
	for _, l := range response.lessons {
		l.gate.lost = true
	}
	response.lessons = nil
	response.reply.lose()
}

// Deliver records that the client receives the answer at the given time, and from then on knows what the answer says.
// Calls may come in any order, and the given time may be later than the World's. The client learns nothing from an
// answer that is never delivered.
func (w *World) Deliver(response *Response, at time.Time) { w.DeliverLate(response, at, at) }

// DeliverLate is like Deliver, for an answer that the client can use only some time after receiving it. Waits in the
// answer count from received, and the client can use the answer from the time at on.
func (w *World) DeliverLate(response *Response, received, at time.Time) {
	response.reply.read(at)
	for _, l := range response.lessons {
		l.gate.learn(l, received, at)
		if l.rule != nil && l.honesty == honest && !l.made.Before(l.rule.changed) {
			l.rule.described = earliest(l.rule.described, at)
		}
	}
	response.lessons = nil
}
