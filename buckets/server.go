package buckets

import "time"

// server is one server whose limits count: Discord, or one that speaks its protocol. What counts by IP address is its own for each,
// and so are its authentications; so nothing that one of them answers touches what is known of another.
type server struct {
	name            string // empty for Discord
	edge            *gate  // another one after each start
	budget          *budget
	authentications int // how many there are; guarded by the lock for moves
}

func (m *RESTBucketManager) newServer(name string) *server {
	s := &server{name: name, edge: newEdge(m)}
	s.budget = newBudget(m.settings.budget, m.settings.budgetPeriod, func() int { return m.othersInvalid(s) })
	return s
}

// server returns the server of that name. The lock for moves is held.
func (m *RESTBucketManager) server(name string) *server {
	s := m.servers[name]
	if s == nil {
		s = m.newServer(name)
		m.servers[name] = s
	}
	return s
}

// evictServers forgets servers that have no authentications left, unless there is something to remember.
func (m *RESTBucketManager) evictServers(now time.Duration) {
	m.moves.Lock()
	defer m.moves.Unlock()
	for name, s := range m.servers {
		if s != m.discord && s.authentications == 0 && s.edge.idle(now) && s.budget.used(now) == 0 && s.budget.counters.inFlight() == 0 {
			m.forgotten.add(s.budget.counters)
			delete(m.servers, name)
		}
	}
}

// EdgeWait returns how long everything that leaves this address for a server (see Request.Server) is held back after a refusal of the
// network in front of it, 0 if it is not.
func (m *RESTBucketManager) EdgeWait(server string) time.Duration {
	m.moves.Lock()
	defer m.moves.Unlock()
	if s := m.servers[server]; s != nil {
		return s.edge.holdWait(m.now())
	}
	return 0
}
