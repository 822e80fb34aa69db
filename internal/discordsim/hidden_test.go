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

// A refusal by a hidden limit must tell the client only about requests like the refused one.
func TestWhatARefusalByAHiddenLimitTells(t *testing.T) {
	t.Parallel()
	ten := Fixed(1, 10*second)
	sub := Rule{Quota: Unlimited(), SubLimits: []SubLimit{{Quota: ten}}}
	shared := Rule{Quota: Unlimited(), Shared: &SharedLimit{Quota: ten, Key: func(Call) string { return "all" }}}
	behind := Rule{Quota: Fixed(9, 500*ms), SubLimits: []SubLimit{{Quota: ten, Silent: true}}}
	silent := Rule{Quota: Unlimited(), SubLimits: []SubLimit{{Quota: ten, Silent: true}}}
	named := map[string]Request{
		"edit": by("PATCH", "/channels/1", "name", "topic"), "reordered": by("PATCH", "/channels/1", "topic", "name"),
		"rename": by("PATCH", "/channels/1", "name"), "bare": by("PATCH", "/channels/1"),
		"put": by("PUT", "/channels/1", "name", "topic"), "another": by("PATCH", "/channels/2", "name", "topic"),
	}
	for _, test := range []struct {
		name  string
		rule  Rule
		again story
		want  string
	}{
		{"sub-limit: the same", sub, "reordered@200", "told"},
		{"sub-limit: other fields", sub, "rename@200", "others"},
		{"sub-limit: another operation", sub, "put@200", "others"},
		{"shared: the same", shared, "edit@200", "told"},
		{"shared: whatever the fields", shared, "bare@200", "told"},
		{"shared: another operation", shared, "put@200", "others"},
		{"shared: another channel", shared, "another@200", "others"},
		{"no time: within a second", silent, "edit@1199", "told"},
		{"no time except the bucket's reset: before it", behind, "edit@599", "told"},
		{"no time except the bucket's reset: after it", behind, "edit@600", "others"},
		{"no time: after a second", silent, "edit@1200", "others"},
	} {
		test.rule.Path, test.rule.Hash = "/channels/{id}", "h"
		w := newWorld(t, Config{Rules: []Rule{test.rule}})
		tell(t, w, named, "edit@0 edit@100 "+test.again, "others "+test.want, test.name)
	}
}
