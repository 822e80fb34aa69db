package limitertest

import (
	"io"
	"time"
)

func closeCases() []testCase {
	return []testCase{
		{
			name: "close/ends all waits", run: closeEndsWaits,
			why: "a program that shuts down must not hang on a queue",
		},
		{
			name: "close/afterwards", run: closeForGood,
			why: "what comes after the end gets an error, and what ends after it does no harm",
		},
	}
}

// closer returns the limiter's Close, or skips the case.
func (t *trial) closer() io.Closer {
	closer, ok := t.limiter.(io.Closer)
	if !ok {
		t.reporter.Skipf("the limiter is not an io.Closer")
	}
	return closer
}

// close closes the limiter and expects that Close returns within a second.
func (t *trial) close(closer io.Closer) {
	t.reporter.Helper()
	closed := make(chan error, 1)
	t.background(func() { closed <- closer.Close() })
	t.wait(time.Second)
	select {
	case err := <-closed:
		t.expect(err == nil, "Close was expected to succeed, but its error is %v", err)
	default:
		t.fatalf("Close was expected to return, but it has not for a second")
	}
}

func closeEndsWaits(t *trial) {
	closer := t.closer()
	t.tell(message(1), ok("messages", 5, 0, time.Minute))
	t.must(history(1), "it is the first") // never answered
	t.tell(message(2), ok("messages", 5, 4, time.Minute))
	t.must(message(2), "four of five are left").update(t, refusedBy("shared", "messages", 5, 3, time.Minute))
	all := append(t.asks(5, message(1)), t.asks(2, message(2))...)
	if !t.without[Discovery] {
		all = append(all, t.asks(2, history(1))...)
	}
	t.tell(message(3), refusal("global", time.Minute).parse())
	all = append(all, t.ask(message(4)), t.ask(rename(5)))
	for i, c := range all {
		t.expect(c.waiting(), "number %d was expected to wait, but %s", i+1, c)
	}
	t.close(closer)
	for i, c := range all {
		done, _, err := c.state()
		t.expect(done, "number %d was expected to end with the limiter, but it waits", i+1)
		t.expect(err != nil, "number %d was expected to end with an error, but it was granted", i+1)
	}
}

func closeForGood(t *trial) {
	closer := t.closer()
	t.tell(message(1), ok("messages", 5, 4, time.Minute))
	updated, released, returned := t.must(message(1), "four are left"), t.must(message(1), "three are left"), t.must(message(1), "two are left")
	t.close(closer)
	updated.update(t, ok("messages", 5, 1, time.Minute))
	released.release(t)
	returned.giveBack(t)
	c := t.ask(message(1))
	_, _, err := c.state()
	t.expect(err != nil, "an error was expected at once, but %s", c)
	t.close(closer)
}
