package buckets

import "testing"

// Stories that went wrong once, as the explorer has found them.
var mendedStories = []struct {
	what  string
	world string
	story []event
}{
	{
		"the hold of a sub-limit was forgotten when its requests joined a foreign bucket",
		"two routes", []event{4, 5, 10, 3, 12, 18},
	},
	{
		"a request in a foreign bucket was told nothing of the hold of its sub-limit",
		"two routes", []event{4, 4, 5, 0, 21, 28, 9},
	},
	{
		"lost requests were charged for no time if only a 429 of a resource had named the limit",
		"two routes", []event{4, 4, 5, 11, 33, 3, 4},
	},
}

func TestMendedStories(t *testing.T) {
	t.Parallel()
	for _, mended := range mendedStories {
		t.Run(mended.what, func(t *testing.T) {
			w := worldOf(mended.world)
			l := play(w, mended.story, false)
			if l.drain(); l.fault != "" {
				t.Errorf("%s:\n%s", l.fault, tell(w, mended.story))
			}
		})
	}
}
