package processes

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// discord listens until the end of the test.
func discord(t *testing.T, quota discordsim.Quota) (url string) {
	server, err := discordsim.New(discordsim.Config{
		Rules: []discordsim.Rule{{Path: "/channels/{id}/messages", Hash: "messages", Quota: quota}}, Global: discordsim.Unlimited(),
	})
	require.NoError(t, err)
	url, err = server.Listen()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return url
}

// parent drives a child.
type parent struct {
	*worker
	mu      sync.Mutex
	records []Record
	result  chan error // of Child
}

func newParent(t *testing.T, a assignment) *parent {
	p := &parent{result: make(chan error, 1)}
	w, err := start(a.Process, fake(func(stdin io.Reader, stdout io.Writer) error {
		err := Child(stdin, stdout)
		p.result <- err
		return err
	}), func(r Record) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.records = append(p.records, r)
	}, func() {})
	require.NoError(t, err)
	p.worker = w
	t.Cleanup(w.end)
	p.tell(command{Work: &a})
	return p
}

func (p *parent) begin() { p.tell(command{Start: time.Now().UnixNano()}) }

func TestChildDoesItsWork(t *testing.T) {
	t.Parallel()
	p := newParent(t, assignment{Process: 3, Discord: discord(t, discordsim.Fixed(5, time.Minute)), Work: Work{
		Callers: []Caller{{Bucket: 7, Count: 2}}, Offers: []Offer{{Bucket: 8}, {Bucket: 9}},
	}})
	require.NoError(t, p.awaitReady())
	p.begin()
	<-p.done
	p.end()
	require.NoError(t, <-p.result)
	require.Len(t, p.records, 4)
	buckets, sequences := make(map[int]int), make(map[int64]bool)
	for _, r := range p.records {
		buckets[r.Bucket]++
		sequences[r.Sequence] = true
		assert.True(t, r.answered())
		assert.Equal(t, 3, r.process())
		require.Len(t, r.Sends, 1)
		assert.Equal(t, http.StatusOK, r.Sends[0].Status)
		assert.LessOrEqual(t, r.Arrived, r.Sends[0].At)
		assert.Less(t, r.Sends[0].At, r.Sends[0].Back)
		assert.LessOrEqual(t, r.Sends[0].Back, r.Done)
	}
	assert.Equal(t, map[int]int{7: 2, 8: 1, 9: 1}, buckets)
	assert.Len(t, sequences, 4)
}

func TestChildGivesUpWhatWaitsAtTheEnd(t *testing.T) {
	t.Parallel()
	p := newParent(t, assignment{Discord: discord(t, discordsim.Fixed(1, time.Minute)), Work: Work{
		Callers: []Caller{{Count: 0}}, Offers: []Offer{{}, {}, {At: time.Hour}},
	}})
	require.NoError(t, p.awaitReady())
	p.begin()
	answered := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.records)
	}
	require.Eventually(t, func() bool { return answered() == 1 }, 10*time.Second, time.Millisecond)
	p.end()
	require.NoError(t, <-p.result)
	given := 0
	for _, r := range p.records {
		if r.GivenUp {
			given++
			assert.Contains(t, r.Error, "canceled")
			assert.Empty(t, r.Sends)
		}
	}
	assert.GreaterOrEqual(t, given, 2)
	assert.Len(t, p.records, given+1)
}

func TestChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	p := newParent(t, assignment{Discord: discord(t, discordsim.Fixed(1, time.Hour)), Work: Work{Offers: []Offer{{}, {}, {At: time.Hour}}}})
	require.NoError(t, p.awaitReady())
	p.begin()
	_ = p.in.Close()
	require.ErrorContains(t, <-p.result, "the parent is gone")
}

func TestChildCannotBeToldNonsense(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Child(strings.NewReader("hello\n"), io.Discard), `got "hello"`)
	require.ErrorContains(t, Child(strings.NewReader(`{"start":1}`+"\n"), io.Discard), "the parent is gone", "nothing was to be done")
}
