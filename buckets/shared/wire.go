package shared

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/ratelimits"
)

// An encoded state begins with text: its version, which engines read, and its owner. Binary numbers follow.

// wireFormat is the version of the binary part. decode rejects other versions.
const wireFormat = 1

// most bounds the length of each list in a state, so that decode does not run for a very long time if a length is
// corrupt.
const most = 100_000

var errState = errors.New("does not hold the state of a bucket")

func (v version) String() string {
	if v == (version{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.life, v.number)
}

func parseVersion(text string) (v version, ok bool) {
	life, number, _ := strings.Cut(text, ".")
	var errs [2]error
	v.life, errs[0] = strconv.ParseInt(life, 10, 64)
	v.number, errs[1] = strconv.ParseInt(number, 10, 64)
	return v, errs[0] == nil && errs[1] == nil
}

// next returns the version after v. If v is zero, next starts a new life, which is a random number.
func (v version) next() version {
	if v.life == 0 {
		v.life = rand.Int64()
	}
	v.number++
	return v
}

// encode returns the state in the form in which the server stores it.
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
		b = wire.AppendTime(b, m.seen, time.Millisecond)
		b = binary.AppendUvarint(b, uint64(min(max(m.waiting, 0), most)))
	}
	b = wire.AppendTime(b, s.mixed, time.Millisecond)
	b = appendSession(b, s.user)
	b = binary.AppendUvarint(b, uint64(len(s.queue)))
	last := time.Duration(0)
	for _, p := range s.queue {
		b = binary.AppendUvarint(b, uint64(index[p.session]))
		b = binary.AppendUvarint(b, p.number)
		arrived := p.arrived.Truncate(time.Microsecond)
		b = wire.AppendTime(b, arrived-last, time.Microsecond)
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

func decode(text string) (s state, err error) {
	front := strings.SplitN(text, " ", 3)
	if len(front) < 3 {
		return s, errState
	}
	var ok bool
	if s.version, ok = parseVersion(front[0]); !ok {
		return s, errState
	}
	if front[1] != "-" {
		s.owner = front[1]
	}
	r := reader{wire.NewReader([]byte(front[2]), errState)}
	if r.Byte() != wireFormat {
		return s, errors.New("holds the state of another version of Ratelight")
	}
	s.era = int64(r.Number())
	for n := r.count(); n > 0 && r.Err == nil; n-- {
		m := member{session: r.session(), call: r.Number(), seen: r.Time(time.Millisecond), waiting: r.count()}
		s.members = append(s.members, m)
	}
	s.mixed, s.user = r.Time(time.Millisecond), r.session()
	last := time.Duration(0)
	for n := r.count(); n > 0 && r.Err == nil; n-- {
		p := place{session: r.name(&s), number: r.Number()}
		last += r.Time(time.Microsecond)
		p.arrived = last
		s.queue = append(s.queue, p)
	}
	for n := r.count(); n > 0 && r.Err == nil; n-- {
		f := flight{session: r.name(&s), number: r.Number()}
		if r.Err == nil {
			f.permit, r.Data, r.Err = ratelimits.DecodePermit(r.Data)
		}
		s.flights = append(s.flights, f)
	}
	if r.Err == nil {
		s.window, r.Data, r.Err = ratelimits.DecodeWindow(r.Data)
	}
	if r.Err == nil && len(r.Data) > 0 {
		r.Err = errState
	}
	return s, r.Err
}

// appendSession appends the name of a session, which is 16 hexadecimal digits or empty.
func appendSession(b []byte, session string) []byte {
	raw, _ := hex.DecodeString(session)
	return append(append(b, byte(len(raw))), raw...)
}

// reader reads the binary part of a state.
type reader struct{ *wire.Reader }

// count reads the length of a list.
func (r reader) count() int { return r.Int(most) }

func (r reader) session() string { return hex.EncodeToString(r.Bytes(int(r.Byte()))) }

// name reads the index of a member, and returns the member's session.
func (r reader) name(s *state) string {
	i := r.Number()
	if i >= uint64(len(s.members)) {
		r.Fail()
		return ""
	}
	return s.members[i].session
}
