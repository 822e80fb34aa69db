package options

const tuneIntroduction = `Usage: go run ./bench tune [flags]

Recommends a max rate limit: the longest predicted wait that the client accepts; it refuses requests at once that would
wait longer. Replays a load against a simulated Discord, in virtual time, once for each value, and recommends the
smallest one that refuses few enough requests. A day takes seconds.
`

const tuneConclusion = `
A trace is CSV (.csv) or JSON lines (.json, .jsonl, .ndjson); with another name, it is JSON lines if it begins with {.

  time,method,path                                   optional header; with it, columns may be in any order,
  2026-01-02T15:04:05.5Z,POST,/channels/1/messages   and others are ignored
  2026-01-02T15:04:06Z,GET,/api/v10/guilds/2/roles

  {"time": 0.0, "method": "POST", "path": "/channels/1/messages"}
  {"time": 12.5, "method": "GET", "path": "/guilds/2/roles"}

Times are in RFC 3339, or in seconds since an arbitrary origin, and may be in any order. A trace should not contain
credentials. Of the paths, only routes and ids are shown, no webhook tokens.

Examples:

  go run ./bench tune                                     100,000 requests in a day, and bursts of 20
  go run ./bench tune -rate 10 -channels 200 -refused 0   more load, and no refusals
  go run ./bench tune -trace traffic.csv -max-rate-limits 1s,10s,1m
  go run ./bench tune -trace - -rule 'POST /channels/{channel.id}/messages=5/5s' -limit 10 -window 10s < traffic.jsonl
  go run ./bench tune -report tune.html                   the same with charts, to open in a browser
  go run ./bench tune -json -refused 0.001                for a script

Exit status of the built program (go run itself exits with 1 for all but 0): 0 a recommendation, 1 all values refuse too
many, 2 invalid flags or trace, 130 interrupted.
`

// TuneHelp is what tune -h prints.
func TuneHelp() string {
	o := tuneDefaults()
	return tuneIntroduction + describe(o.groups()) + tuneConclusion
}
