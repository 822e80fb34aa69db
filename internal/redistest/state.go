package redistest

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Snapshot identifies a copy of a server's contents.
type Snapshot int

// Save copies the server's contents for [Memory.Restore]. The copy takes a database of its own, from 1 on.
func (m *Memory) Save() Snapshot {
	m.connection.Lock()
	defer m.connection.Unlock()
	m.saved++
	m.copyAll(0, m.saved)
	return Snapshot(m.saved)
}

// Restore returns the server to a snapshot, like a server that starts again from an old file, or a replica that was
// behind and takes over. Keys that would have expired since are gone. The clock and subscriptions go on. Restore
// returns how the keys have changed, for messages of tests.
func (m *Memory) Restore(s Snapshot) (changes []string) {
	m.connection.Lock()
	defer m.connection.Unlock()
	before := m.contents()
	m.Redis.DB(0).FlushDB()
	m.copyAll(int(s), 0)
	after := m.contents()
	for key, was := range before {
		if is, there := after[key]; !there {
			changes = append(changes, key+" is gone")
		} else if is != was {
			changes = append(changes, key+" is older")
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			changes = append(changes, key+" is there again")
		}
	}
	slices.Sort(changes)
	return changes
}

// contents returns what all keys hold, as text.
func (m *Memory) contents() map[string]string {
	all := map[string]string{}
	for _, key := range m.Redis.DB(0).Keys() {
		switch m.Redis.Type(key) {
		case "hash":
			fields, _ := m.Redis.HKeys(key)
			slices.Sort(fields)
			for _, field := range fields {
				all[key] += field + "=" + m.Redis.HGet(key, field) + " "
			}
		case "zset":
			members, _ := m.Redis.SortedSet(key)
			for _, member := range slices.Sorted(maps.Keys(members)) {
				all[key] += fmt.Sprint(member, "=", members[member], " ")
			}
		case "string":
			all[key], _ = m.Redis.Get(key)
		default:
			all[key] = ""
		}
	}
	return all
}

// copyAll copies all keys with their times to live. No script may run meanwhile.
func (m *Memory) copyAll(from, to int) {
	for _, key := range m.Redis.DB(from).Keys() {
		if err := m.Redis.Copy(from, key, to, key); err != nil {
			panic(err) // the key was there a moment ago, and no script runs
		}
	}
}

// Keys returns the names of all keys, sorted.
func (m *Memory) Keys() []string {
	m.connection.Lock()
	defer m.connection.Unlock()
	return m.Redis.DB(0).Keys()
}

// Evict deletes one key, as a server does that runs out of memory, and reports whether it existed.
func (m *Memory) Evict(key string) bool {
	m.connection.Lock()
	defer m.connection.Unlock()
	return m.Redis.DB(0).Del(key)
}

// StepClock steps the server's clock, which runs on from there.
func (m *Memory) StepClock(d time.Duration) {
	m.connection.Lock()
	defer m.connection.Unlock()
	m.ahead, m.stepped = m.ahead+d, true
	m.setClock()
}

// setClock tells the server the time, because a clock that was set stands still. m.connection must be held.
func (m *Memory) setClock() {
	if m.stepped {
		m.Redis.SetTime(time.Now().Add(m.ahead))
	}
}
