package buckets

import (
	"hash/maphash"
	"strconv"

	"github.com/ratelight/ratelight/routes"
)

// major is the major parameter as a key of maps: the id as a number, and a keyed hash of the token where there is one.
type major struct{ id, token uint64 }

var noMajor major

// hashed marks an id that is not a number as it should be. No snowflake is that large.
const hashed = 1 << 63

// majorOf returns the major parameter of a route.
func (m *RESTBucketManager) majorOf(route *routes.CompiledRoute) major {
	p := major{id: route.MajorNumber()}
	if p.id == 0 {
		id := route.MajorID()
		if id == "" {
			return noMajor
		}
		p.id = m.digest(id) | hashed
	}
	if token := route.MajorToken(); token != "" {
		p.token = m.digest(token) | 1
	}
	return p
}

// digest returns a keyed hash. Where limits are shared, all processes have to have the same.
func (m *RESTBucketManager) digest(text string) uint64 {
	if session := m.session(); session != nil {
		n, _ := strconv.ParseUint(session.Credential(text), 16, 64)
		return n
	}
	return maphash.String(m.seed, text)
}

// String returns the major parameter without giving a token away, "-" if there is none.
func (m major) String() string {
	switch {
	case m == major{}:
		return "-"
	case m.id&hashed != 0:
		return "#" + strconv.FormatUint(m.id&0xffffff, 16)
	case m.token != 0:
		return strconv.FormatUint(m.id, 10) + ":#" + strconv.FormatUint(m.token&0xffffff, 16)
	}
	return strconv.FormatUint(m.id, 10)
}

// shared returns the major parameter as all processes write it, empty if there is none.
func (m major) shared() string {
	if m == noMajor {
		return ""
	}
	text := strconv.FormatUint(m.id, 10)
	if m.token != 0 {
		text += ":" + strconv.FormatUint(m.token, 16)
	}
	return text
}
