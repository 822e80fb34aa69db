package shared

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// How a state is written: in front its version and the owner as text, which scripts read, then numbers.

// wireFormat is the version of what follows the front. One that is not the same is not ours.
const wireFormat = 1

// most is the largest number of elements of a list, so that nobody reads a list that has no end.
const most = 100_000

var errState = errors.New("does not hold the state of a bucket")

func (v version) String() string {
	if v == (version{}) {
		return ""
	}
	return fmt.Sprintf("%d %d", v.life, v.number)
}

// encode returns the state as the server keeps it.
func (s *state) encode() string {
	owner := s.owner
	if owner == "" {
		owner = "-"
	}
	b := append([]byte(s.version.String()+" "+owner+" "), wireFormat)
	b = binary.AppendUvarint(b, uint64(s.era))
	b = binary.AppendUvarint(b, uint64(len(s.members)))
	index := map[string]int{}
	for i, m := range s.members {
		index[m.session] = i
		b = appendSession(b, m.session)
		b = binary.AppendUvarint(b, m.call)
		b = binary.AppendVarint(b, int64(m.seen/time.Millisecond))
		b = binary.AppendUvarint(b, uint64(min(max(m.waiting, 0), most)))
	}
	b = binary.AppendVarint(b, int64(s.mixed/time.Millisecond))
	b = appendSession(b, s.user)
	b = binary.AppendUvarint(b, uint64(len(s.queue)))
	last := time.Duration(0)
	for _, p := range s.queue {
		b = binary.AppendUvarint(b, uint64(index[p.session]))
		b = binary.AppendUvarint(b, p.number)
		arrived := p.arrived.Truncate(time.Microsecond)
		b = binary.AppendVarint(b, int64((arrived-last)/time.Microsecond))
		last = arrived
	}
	b = binary.AppendUvarint(b, uint64(len(s.flights)))
	for _, f := range s.flights {
		b = binary.AppendUvarint(b, uint64(index[f.session]))
		b = binary.AppendUvarint(b, f.number)
		b = f.permit.Append(b)
	}
	return string(s.window.Append(b))
}

// decode reads a state.
func decode(text string) (s state, err error) {
	front := strings.SplitN(text, " ", 4)
	if len(front) < 4 {
		return s, errState
	}
	var errs [2]error
	s.version.life, errs[0] = strconv.ParseInt(front[0], 10, 64)
	s.version.number, errs[1] = strconv.ParseInt(front[1], 10, 64)
	if errs[0] != nil || errs[1] != nil {
		return s, errState
	}
	if front[2] != "-" {
		s.owner = front[2]
	}
	r := reader{data: []byte(front[3])}
	if r.byte() != wireFormat {
		return s, errors.New("holds the state of another version of Ratelight")
	}
	s.era = int64(r.number())
	for n := r.count(); n > 0 && r.err == nil; n-- {
		s.members = append(s.members, member{session: r.session(), call: r.number(), seen: r.time(time.Millisecond), waiting: r.count()})
	}
	s.mixed, s.user = r.time(time.Millisecond), r.session()
	last := time.Duration(0)
	for n := r.count(); n > 0 && r.err == nil; n-- {
		p := place{session: r.name(&s), number: r.number()}
		last += r.time(time.Microsecond)
		p.arrived = last
		s.queue = append(s.queue, p)
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		f := flight{session: r.name(&s), number: r.number()}
		if r.err == nil {
			f.permit, r.data, r.err = ratelimits.DecodePermit(r.data)
		}
		s.flights = append(s.flights, f)
	}
	if r.err == nil {
		s.window, r.data, r.err = ratelimits.DecodeWindow(r.data)
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = errState
	}
	return s, r.err
}

// appendSession writes the name of a session, which is 16 hexadecimal digits or nothing.
func appendSession(b []byte, session string) []byte {
	raw, _ := hex.DecodeString(session)
	return append(append(b, byte(len(raw))), raw...)
}

// reader reads numbers until something is wrong; then everything is zero.
type reader struct {
	data []byte
	err  error
}

func (r *reader) fail() { r.data, r.err = nil, errState }

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		r.fail()
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[size:]
	return n
}

// count reads how many there are of something.
func (r *reader) count() int {
	n := r.number()
	if n > most {
		r.fail()
		return 0
	}
	return int(n)
}

// time reads a time in units.
func (r *reader) time(unit time.Duration) time.Duration {
	n, size := binary.Varint(r.data)
	if size <= 0 || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		r.fail()
		return 0
	}
	r.data = r.data[size:]
	return time.Duration(n) * unit
}

func (r *reader) session() string {
	n := int(r.byte())
	if n > len(r.data) {
		r.fail()
		return ""
	}
	name := hex.EncodeToString(r.data[:n])
	r.data = r.data[n:]
	return name
}

// name reads the number of a member, and returns its session.
func (r *reader) name(s *state) string {
	i := r.number()
	if i >= uint64(len(s.members)) {
		r.fail()
		return ""
	}
	return s.members[i].session
}
