package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHiddenLimitsOnRoutesWithoutHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		rule         Rule
		class        Class
		scope        string
		header, body any
	}{
		{"sub-limit", Rule{SubLimits: []SubLimit{{Quota: Fixed(1, 10*time.Second), Code: 1}}},
			ClassSubLimit, "user", "10", 10.0},
		{"sub-limit without a time",
			Rule{SubLimits: []SubLimit{{Quota: Fixed(1, 10*time.Second), Code: 1, Silent: true}}},
			ClassSubLimit, "user", nil, nil},
		{"shared", Rule{Shared: &SharedLimit{Quota: Fixed(1, 10*time.Second), Code: 1}}, ClassShared, "shared", "10", 10.0},
		{"shared without a time",
			Rule{Shared: &SharedLimit{Quota: Fixed(1, 10*time.Second), Code: 1, Silent: true}},
			ClassShared, "shared", nil, nil},
	}
	for _, test := range tests {
		test.rule.Quota = Unlimited()
		w := messages(t, test.rule)
		responses := send(w, 0, 2, post)
		require.Equal(t, []int{200, 429}, statuses(responses), test.name)
		for _, response := range responses {
			assert.Empty(t, headers(response, limitNames...), test.name)
		}
		refused := responses[1]
		assert.Equal(t, test.class, refused.Class, test.name)
		assert.Equal(t, test.scope, refused.Header.Get("X-RateLimit-Scope"), test.name)
		header, inBody := wait(t, refused)
		assert.Equal(t, test.header, header, test.name)
		assert.Equal(t, test.body, inBody, test.name)
		assert.Equal(t, 1.0, body(t, refused)["code"], test.name)
	}
}

// A refusal by a hidden limit concerns only requests like the refused one.
func TestWhatARefusalByAHiddenLimitTells(t *testing.T) {
	t.Parallel()
	ask := func(sent time.Duration, method, path string, fields ...string) step {
		s := trip(sent).to(method, path)
		s.request.Fields = fields
		return s
	}
	const one, two = "/channels/1", "/channels/2"
	ten := Fixed(1, 10*time.Second)
	sub := Rule{Quota: Unlimited(), SubLimits: []SubLimit{{Quota: ten}}}
	shared := Rule{Quota: Unlimited(), Shared: &SharedLimit{Quota: ten, Key: func(Call) string { return "all" }}}
	behind := Rule{Quota: Fixed(9, 500*time.Millisecond), SubLimits: []SubLimit{{Quota: ten, Silent: true}}}
	silent := Rule{Quota: Unlimited(), SubLimits: []SubLimit{{Quota: ten, Silent: true}}}
	first := []step{ask(0, "PATCH", one, "name", "topic"), ask(100*ms, "PATCH", one, "name", "topic")}
	tests := []struct {
		name  string
		rule  Rule
		again step
		want  string
	}{
		{"sub-limit: the same", sub, ask(200*ms, "PATCH", one, "topic", "name"), becauseTold},
		{"sub-limit: other fields", sub, ask(200*ms, "PATCH", one, "name"), becauseOthers},
		{"sub-limit: another operation", sub, ask(200*ms, "PUT", one, "name", "topic"), becauseOthers},
		{"shared: the same", shared, ask(200*ms, "PATCH", one, "name", "topic"), becauseTold},
		{"shared: whatever the fields", shared, ask(200*ms, "PATCH", one), becauseTold},
		{"shared: another operation", shared, ask(200*ms, "PUT", one, "name", "topic"), becauseOthers},
		{"shared: another channel", shared, ask(200*ms, "PATCH", two, "name", "topic"), becauseOthers},
		{"no time: within a second", silent, ask(1199*ms, "PATCH", one, "name", "topic"), becauseTold},
		{"no time except the bucket's: before it", behind, ask(599*ms, "PATCH", one, "name", "topic"), becauseTold},
		{"no time except the bucket's: after it", behind, ask(600*ms, "PATCH", one, "name", "topic"), becauseOthers},
		{"no time: after a second", silent, ask(1200*ms, "PATCH", one, "name", "topic"), becauseOthers},
	}
	for _, test := range tests {
		test.rule.Path, test.rule.Hash = "/channels/{id}", "h"
		_, reasons := tell(newWorld(t, Config{Rules: []Rule{test.rule}}), append(first, test.again)...)
		assert.Equal(t, []string{becauseOthers, test.want}, reasons, test.name)
	}
}
