package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// workload is a number of calls that are made at once, and the limits that they meet.
type workload struct {
	name, about string
	roundTrip   time.Duration
	calls       []call
}

// call is one call to a library.
type call struct {
	kind    kind
	channel uint64
	n       int
}

// kind is what is called. It decides about the limit.
type kind int

const (
	send kind = iota
	edit
	remove
	react
	upload
	reply
	execute
)

// limit is how Discord limits a route.
type limit struct {
	method, path string
	quota        discordsim.Quota
}

// limits are those of the kinds, of the sizes of Discord's own but with shorter periods.
var limits = map[kind]limit{
	send:    {http.MethodPost, "/channels/{id}/messages", discordsim.Fixed(5, time.Second)},
	upload:  {http.MethodPost, "/channels/{id}/messages", discordsim.Fixed(5, time.Second)},
	edit:    {http.MethodPatch, "/channels/{id}/messages/{id}", discordsim.Fixed(5, time.Second)},
	remove:  {http.MethodDelete, "/channels/{id}/messages/{id}", discordsim.Sliding(5, time.Second)},
	react:   {http.MethodPut, "/channels/{id}/messages/{id}/reactions/{emoji}/@me", discordsim.Fixed(1, 250*time.Millisecond)},
	reply:   {http.MethodPost, "/interactions/{id}/{token}/callback", discordsim.Unlimited()},
	execute: {http.MethodPost, "/webhooks/{id}/{token}", discordsim.Fixed(5, 2*time.Second)},
}

// workloads are what the libraries are compared with.
func workloads() []workload {
	return []workload{
		{"burst", "60 messages to 3 channels", 250 * time.Millisecond, repeated(3, 20, send)},
		{"wide", "200 messages to 40 channels, more than 50 a second in all", 100 * time.Millisecond, repeated(40, 5, send)},
		{"mixed", "all seven calls, on 3 channels", 100 * time.Millisecond, append(
			repeated(3, 7, send, edit),
			repeated(3, 2, upload, remove, react, reply, execute)...,
		)},
	}
}

// repeated returns so many calls of each kind in each of the channels.
func repeated(channels, times int, kinds ...kind) (calls []call) {
	for n := range times {
		for _, k := range kinds {
			for c := range channels {
				calls = append(calls, call{k, uint64(900_000_000_000_000_000 + c), n})
			}
		}
	}
	return calls
}

// webhookToken and interactionToken look like Discord's.
const (
	webhookToken     = "webhook-token"
	interactionToken = "aW50ZXJhY3Rpb246MTIz"
)

// do makes the call. The channel's number is the webhook's and the interaction's as well.
func (c call) do(with client) error {
	id := firstMessage + uint64(c.n)
	content := fmt.Sprintf("message %d", c.n)
	var err error
	switch c.kind {
	case send:
		_, err = with.Send(c.channel, content)
	case edit:
		_, err = with.Edit(c.channel, id, content)
	case remove:
		err = with.Delete(c.channel, id)
	case react:
		err = with.React(c.channel, id, "🔥")
	case upload:
		_, err = with.Upload(c.channel, "file.bin", []byte(content))
	case reply:
		err = with.Reply(c.channel+uint64(c.n)*1000, interactionToken, content)
	case execute:
		_, err = with.Webhook(c.channel, webhookToken, content)
	}
	return err
}

// config is the simulated Discord. Its seconds, in which the global limit is counted, begin now. The tolerance is the machine's.
func (w workload) config(tolerance time.Duration) discordsim.Config {
	config := discordsim.Config{
		Global:    w.global(time.Duration(time.Now().UnixNano()) % time.Second),
		Latency:   discordsim.RoundTrip(w.roundTrip),
		Tolerance: tolerance,
	}
	for k := range execute + 1 {
		if k == upload { // the rule of send
			continue
		}
		l := limits[k]
		config.Rules = append(config.Rules, discordsim.Rule{Method: l.method, Path: l.path, Quota: l.quota})
	}
	return config
}

func (w workload) global(phase time.Duration) discordsim.Quota {
	return discordsim.Aligned(50, time.Second, phase)
}

// ideal is how long a client takes that risks no 429.
func (w workload) ideal() (time.Duration, error) {
	type bucket struct {
		method, path string
		channel      uint64
	}
	var work []discordsim.Work
	index := make(map[bucket]int)
	for _, c := range w.calls {
		l := limits[c.kind]
		b := bucket{l.method, l.path, c.channel}
		i, ok := index[b]
		if !ok {
			i = len(work)
			index[b] = i
			work = append(work, discordsim.Work{Quota: l.quota, Route: l.method + l.path, Exempt: c.kind == reply})
		}
		work[i].Count++
	}
	plan, err := discordsim.Certain(discordsim.Conditions{RoundTrip: w.roundTrip, Global: w.global(0)}, work...)
	return plan.Makespan, err
}
