package limitertest

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// elsewhere is a server that is not Discord.
const elsewhere = "compatible.example"

// at changes the server of a request, and returns the request.
func at(server string, r *buckets.Request) *buckets.Request {
	r.Server = server
	return r
}

func serverCases() []testCase {
	const why = "different servers share nothing, whatever their answers call it: another one must neither stop Discord's limits nor use them up"
	all := []testCase{
		{name: "server/buckets are apart", run: serverBucketsApart, why: why},
		{name: "server/without a hash, too", one: true, run: serverRoutesApart, why: why},
		{name: "server/the global limit is each one's own", run: serverGlobalsApart, why: why},
	}
	for _, k := range refusedKinds {
		all = append(all, testCase{
			name: "server/refusals hold nothing elsewhere/" + k.name, needs: k.needs, why: why, run: func(t *trial) { serverHoldsApart(t, k) },
		})
	}
	return all
}

// goesAt expects that a request to another server is granted at once, and returns its call.
func goesAt(t *trial, r *buckets.Request, because string) *call {
	t.reporter.Helper()
	c := t.call(t.ctx, at(elsewhere, r))
	t.expect(c.granted(), "%v at another server was expected to be granted at once (%s), but %s", r.Route, because, c)
	return c
}

func serverBucketsApart(t *trial) {
	t.tell(message(1), ok("messages", 2, 0, 10*time.Second))
	goesAt(t, request(message(1)), "only Discord's bucket is used up").update(t, ok("messages", 2, 1, 10*time.Second))
	t.expect(!t.waits(at(elsewhere, request(message(1)))), "one of two is left at the other server, so it was expected to go")
	t.expect(t.waits(request(message(1))), "the bucket at Discord is used up, so it was expected to wait, whatever the other server says")
	goesAt(t, request(message(1)), "one is left").update(t, ok("messages", 2, 0, 10*time.Second))
	t.expect(t.waits(at(elsewhere, request(message(1)))), "the other server's bucket is used up as well, so it was expected to wait")
}

func serverRoutesApart(t *trial) {
	t.tell(message(1), ok("", 1, 0, 10*time.Second))
	goesAt(t, request(message(1)), "only Discord's route is used up").update(t, plain(http.StatusOK))
	t.expect(t.waits(request(message(1))), "the route is used up at Discord, so it was expected to wait")
}

// serverGlobalsApart uses up the global limit of each server, with requests to a route without a limit.
func serverGlobalsApart(t *trial) {
	if t.global == 0 {
		t.reporter.Skipf("the limiter has no global limit")
	}
	for _, server := range []string{"", elsewhere} {
		t.call(t.ctx, at(server, request(message(1)))).update(t, plain(http.StatusOK))
	}
	t.wait(4 * time.Second)
	for _, server := range []string{"", elsewhere} {
		granted := 0
		for range t.global + 1 {
			if c := t.call(t.ctx, at(server, request(message(1)))); c.granted() {
				granted++
			}
		}
		t.expect(granted == t.global, "%d were expected to go to server %q in its first second, but %d did", t.global, server, granted)
	}
}

func serverHoldsApart(t *trial, k refusedKind) {
	for _, route := range []routes.CompiledRoute{message(1), message(2)} {
		goesAt(t, request(route), "nothing stands against it yet").update(t, ok("messages", 5, 4, time.Second))
	}
	prepareRefusal(t, k)
	for _, r := range []*buckets.Request{withFields(message(1), "content"), request(message(2)), request(history(1)), request(callback(2))} {
		goesAt(t, r, "the refusal was Discord's").giveBack(t)
	}
	t.expect(t.waits(withFields(message(1), "content")), "a request of the same kind was expected to wait at Discord")
}
