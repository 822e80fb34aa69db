package wire_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReaderReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	b := wire.AppendText(nil, "text")
	b = wire.AppendFlag(wire.AppendFlag(b, true), false)
	b = wire.AppendTime(b, -3*time.Hour, time.Millisecond)
	b = binary.AppendUvarint(b, 7)
	b = binary.BigEndian.AppendUint64(b, math.MaxUint64)
	r := wire.NewReader(b, wire.ErrDamaged)
	assert.Equal(t, "text", r.Text())
	assert.True(t, r.Flag())
	assert.False(t, r.Flag())
	assert.Equal(t, -3*time.Hour, r.Time(time.Millisecond))
	assert.Equal(t, 7, r.Int(7))
	assert.Equal(t, uint64(math.MaxUint64), r.Fixed())
	assert.NoError(t, r.Err)
	assert.Empty(t, r.Data)
	assert.Zero(t, r.Byte())
	assert.ErrorIs(t, r.Err, wire.ErrDamaged)
}

func TestReaderBelievesNoNumberThatIsTooLarge(t *testing.T) {
	t.Parallel()
	many := binary.AppendUvarint(nil, math.MaxUint64)
	for name, read := range map[string]func(r *wire.Reader){
		"count": func(r *wire.Reader) { assert.Zero(t, r.Count()) },
		"text":  func(r *wire.Reader) { assert.Empty(t, r.Text()) },
		"int":   func(r *wire.Reader) { assert.Zero(t, r.Int(math.MaxInt)) },
		"time": func(r *wire.Reader) {
			r.Data = binary.AppendVarint(nil, math.MaxInt64)
			assert.Zero(t, r.Time(time.Second))
		},
	} {
		r := wire.NewReader(many, wire.ErrDamaged)
		read(r)
		assert.ErrorIs(t, r.Err, wire.ErrDamaged, name)
		assert.Zero(t, r.Number(), "%s: nothing is read after an error", name)
	}
}

func TestBlockOfHostileLengthTakesNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := wire.ReadBlock(bytes.NewReader([]byte{'X', 1, 0xff, 0xff, 0xff, 0xff, 1, 2, 3}), 'X', 1)
	runtime.ReadMemStats(&after)
	assert.ErrorIs(t, err, wire.ErrState)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestBlocksFollowEachOther(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for _, contents := range []string{"one", "", strings.Repeat("x", 100_000)} {
		b.Write(wire.EndBlock(append(wire.BeginBlock('X', 1), contents...)))
	}
	for _, contents := range []string{"one", "", strings.Repeat("x", 100_000)} {
		read, err := wire.ReadBlock(&b, 'X', 1)
		require.NoError(t, err)
		assert.Equal(t, contents, string(read))
	}
	_, err := wire.ReadBlock(&b, 'X', 1)
	assert.ErrorIs(t, err, wire.ErrState)
}

func TestBlockOfAnotherKindOrVersionOrThatIsDamagedIsNotRead(t *testing.T) {
	t.Parallel()
	for i, want := range []error{wire.ErrState, wire.ErrState, wire.ErrDamaged, wire.ErrDamaged} {
		block := wire.EndBlock(append(wire.BeginBlock('X', 1), "contents"...))
		block[[]int{0, 1, 8, len(block) - 1}[i]]++
		_, err := wire.ReadBlock(bytes.NewReader(block), 'X', 1)
		assert.ErrorIs(t, err, want, "%d", i)
	}
}

func TestKeyHidesAndTellsApart(t *testing.T) {
	secret := wire.NewSecret([]byte("secret"))
	one := wire.NewKey(secret)
	same, salted, other := wire.KeyWithSalt(secret, one.Salt), wire.NewKey(secret), wire.KeyWithSalt(nil, one.Salt)
	token := strings.Repeat("token", 100)
	assert.Equal(t, one.Sum(token), same.Sum(token))
	for _, k := range []*wire.Key{salted, other} {
		assert.NotEqual(t, one.Sum(token), k.Sum(token))
	}
	assert.NotEqual(t, one.Sum("a"), one.Sum("b"))
	text := "a token as long as one of Discord's, which has some seventy characters"
	assert.Zero(t, testing.AllocsPerRun(10, func() { one.Sum(text) }))
}

func TestClockIsBelievedWithinAnHour(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for passed, want := range map[time.Duration][2]time.Duration{
		-time.Hour:                 {0, time.Hour},
		0:                          {0, time.Hour},
		time.Hour:                  {0, 2 * time.Hour},
		90 * time.Minute:           {30 * time.Minute, 150 * time.Minute},
		100 * 365 * 24 * time.Hour: {47 * time.Hour, 49 * time.Hour},
	} {
		least, most := wire.Elapsed(now, now.Add(passed))
		assert.Equal(t, want, [2]time.Duration{least, most}, "%v", passed)
	}
}
