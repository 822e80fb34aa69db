// Package metrics shows a bucket manager and the transports above it to Prometheus: how long requests wait and for what, how long Discord
// takes, how long the library itself takes, what is refused, held and sent again.
//
//	transport := httpclient.NewTransport()
//	prometheus.MustRegister(metrics.New(transport.Manager(), transport))
//
// That is all, also where a Discord library is above the transport:
//
//	discordgolimit.Prepare(session, transport)                                       // discordgo; disgo and arikawa alike
//	prometheus.MustRegister(metrics.New(transport.Manager(), transport))             // any library that takes the transport
//	prometheus.MustRegister(metrics.New(client.Transport().Manager(), client.Transport())) // httpclient/rest
//	prometheus.MustRegister(metrics.New(manager))                                    // a manager around other HTTP code
//	prometheus.MustRegister(metrics.New(nil, transport))                             // a transport with httpclient.WithLimiter
//
// Several of them in one process need a label that tells them apart:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"bot": "helper"}, prometheus.DefaultRegisterer).MustRegister(…)
//
// # The metrics
//
// Durations are in seconds. Gauges and counters are there from the start, at 0, so that alerts see a first increase.
// A histogram has a series for each set of labels from its first use on.
//
//	http_client_request_duration_seconds   histogram  attempts, until the headers of their response; labels as in OpenTelemetry:
//	                                                  http_request_method, http_response_status_code ("" without a response),
//	                                                  error_type (a status from 400 on, timeout, canceled, _OTHER; "" if it went well)
//	ratelight_queue_wait_seconds           histogram  waits in queues, however they ended, by reason: which limit opened
//	                                                  last (see buckets.Waited); none counts requests that did not wait
//	ratelight_overhead_seconds             histogram  what the transport adds to a request: neither waiting nor in flight
//	ratelight_requests_waiting             gauge      requests in queues
//	ratelight_declared_limit_waiting       gauge      of those in queues the ones that wait for a limit of buckets.WithLimit, by its name
//	ratelight_requests_in_flight           gauge      requests whose outcome is not known yet
//	ratelight_buckets, _routes, _credentials  gauge   how many are known
//	ratelight_holds                        gauge      holds that are not over, by the class of the 429 that caused them
//	ratelight_hold_remaining_seconds       gauge      time until the last of them ends, by class
//	ratelight_longest_predicted_wait_seconds  gauge   that of any bucket in which requests wait
//	ratelight_global_in_use, _global_limit    gauge   requests that count for the global limit now, and what it allows this process,
//	                                                  of the credential with the most
//	ratelight_invalid_responses            gauge      responses of the latest ten minutes that count against Discord's limit of
//	                                                  invalid requests, after which it bans an address
//	ratelight_invalid_responses_limit      gauge      how many there may be before requests are refused; 0: no bound
//	ratelight_requests_granted_total       counter    requests that were allowed to be sent, each attempt for itself
//	ratelight_responses_total              counter    responses by class: ok, or the limit that refused, see ratelimits.Class
//	ratelight_refusals_total               counter    requests that were not sent, by reason: too_long, queue_full, invalid_budget,
//	                                                  cancelled while they waited, credential (refused before), closed
//	ratelight_retries_total                counter    attempts after the first one, by reason: see httpclient.RetryReason
//	ratelight_requests_lost_total          counter    requests whose outcome never became known
//	ratelight_buckets_evicted_total        counter    buckets that the garbage collector has removed
//
// With buckets.WithShared there is also what buckets.SharedStats says, each below ratelight_shared_: calls_total, call_errors_total and
// call_duration_seconds_total by script; loans, loans_taken_total, loans_returned_total, loans_expired_total and loans_recalled_total;
// losses_total, clock_steps_total, suspensions_total; outage_age_seconds (of the present one), outages_total, outage_seconds_total;
// quota and quota_need, in requests a second.
//
// No label contains an id, a token or a path (but what buckets.Named says), so the number of series is bounded, whatever is requested. New adds hooks to the manager and
// the transports, beside those that there are; without it nothing is measured.
package metrics
