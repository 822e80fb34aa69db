package buckets

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSnowflakesAreNumbersInDiscordsForm(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]uint64{
		"1": 1, "175928847299117063": 175928847299117063, "1234567890123456789": 1234567890123456789,
		"9223372036854775807": 1<<63 - 1,
		"0":                   0, "01": 0, "9223372036854775808": 0, "99999999999999999999": 0,
		"me": 0, "1x": 0, "12345678901234567890x": 0, "+1": 0, "": 0,
	} {
		assert.Equal(t, want, snowflake(id), id)
	}
}
