// Package metrics exports metrics of a bucket manager and of the transports above it to Prometheus: how long requests
// wait and for which limit, how long Discord takes, how long the library itself takes, how many requests are rejected,
// how many are sent again, and which limits are held.
//
//	transport := httpclient.NewTransport()
//	prometheus.MustRegister(metrics.New(transport.Manager(), transport))
//
// Nothing else is needed, whichever Discord library uses the transport:
//
//	discordgolimit.Prepare(session, transport)                           // discordgo; similar for disgo and arikawa
//	prometheus.MustRegister(metrics.New(transport.Manager(), transport)) // any library that takes the transport
//	prometheus.MustRegister(metrics.New(manager))                        // a manager around other HTTP code
//	prometheus.MustRegister(metrics.New(nil, transport))                 // a transport with httpclient.WithLimiter
//	t := client.Transport()                                              // of an httpclient/rest client
//	prometheus.MustRegister(metrics.New(t.Manager(), t))
//
// If a process has several collectors, give each of them a label that distinguishes it:
//
//	labels := prometheus.Labels{"bot": "helper"}
//	prometheus.WrapRegistererWith(labels, prometheus.DefaultRegisterer).MustRegister(…)
//
// # The metrics
//
// Durations are in seconds. Metrics whose names end in _total are counters, the first three are histograms, and all
// others are gauges. Gauges and counters exist from the start with the value 0, so that alerts notice the first
// increase. A histogram with labels creates each series at its first use.
//
//	http_client_request_duration_seconds      attempts until the headers of their response; labels of OpenTelemetry:
//	                                          http_request_method, http_response_status_code ("" without a response),
//	                                          error_type (a status from 400 on, timeout, canceled, _OTHER, or "")
//	ratelight_queue_wait_seconds              waits in queues, with any outcome, by reason: the limit that opened last
//	                                          (see buckets.Waited), or none for requests that did not wait
//	ratelight_overhead_seconds                time of a request in the transport without its waits and its time in flight
//	ratelight_declared_limit_waiting          requests that wait for a limit of buckets.WithLimit, by its name
//	ratelight_holds                           holds that are not over, by the class of the 429 that caused them
//	ratelight_hold_remaining_seconds          time until the last of these holds ends, by class
//	ratelight_longest_predicted_wait_seconds  the longest predicted wait in any bucket in which requests wait
//	ratelight_global_in_use                   requests that count against the global limit now, for the credential with
//	                                          the most such requests
//	ratelight_global_limit                    requests per second that this process may send with that credential
//	ratelight_responses_total                 responses by class: ok, or the limit that refused the request (see
//	                                          ratelimits.Class)
//	ratelight_refusals_total                  requests that were not sent, by reason: too_long, queue_full,
//	                                          invalid_budget, cancelled (while waiting), superseded (by a newer request),
//	                                          credential (Discord has refused it before), closed
//	ratelight_retries_total                   attempts after the first one, by reason (see httpclient.RetryReason)
//
// Each field of buckets.Stats with the tag metric is also exported. Its name has the prefix ratelight_, for example
// ratelight_requests_waiting. With buckets.WithShared, the fields of shared.Stats are exported with the prefix
// ratelight_shared_. The metrics ratelight_shared_calls_total, ratelight_shared_call_errors_total and
// ratelight_shared_call_duration_seconds_total have the purpose of the calls as a label.
//
// No label contains an id, a token or a path (except names given with buckets.Named), so the number of series is
// bounded, whatever clients send. New adds its hooks to the existing ones. Without New, nothing is measured.
package metrics
