package memoryengine

import (
	"maps"
	"slices"
	"time"
)

// Keys returns the names of all keys, sorted.
func (e *Engine) Keys() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.contents()))
}

// contents deletes expired values and returns the others. e.mu must be held.
func (e *Engine) contents() map[string]value {
	for key := range e.values {
		e.value(key)
	}
	return e.values
}

// Value returns the value of a key, "" if it has none.
func (e *Engine) Value(key string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.value(key).text
}

// Set stores any text under a key without an expiry, even a text that is not a value of the protocol.
func (e *Engine) Set(key, text string) { e.set(key, value{text: text}) }

// SetForeign stores a value that is not a text under a key, without an expiry.
func (e *Engine) SetForeign(key string) { e.set(key, value{foreign: true}) }

func (e *Engine) set(key string, v value) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.values[key] = v
}

// Evict deletes one key, like a server that has no free memory, and reports whether the key existed.
func (e *Engine) Evict(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, existed := e.contents()[key]
	delete(e.values, key)
	return existed
}

// Flush deletes all values. Snapshots made by Save stay usable.
func (e *Engine) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.values)
}

// Snapshot is a copy of an engine's values.
type Snapshot struct{ values map[string]value }

// Save copies the engine's values for [Engine.Restore].
func (e *Engine) Save() Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Snapshot{maps.Clone(e.contents())}
}

// Restore replaces all values by those of a snapshot, like a server that starts again from an old file, or like a
// replica that takes over with old values. Values that have expired since the snapshot stay gone. The clock and the
// subscriptions do not change. Restore returns a description of each change, for messages of tests.
func (e *Engine) Restore(s Snapshot) (changes []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.contents()
	e.values = maps.Clone(s.values)
	after := e.contents()
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

// StepClock sets the engine's clock forward by d, or back if d is negative. The clock runs on from there.
func (e *Engine) StepClock(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ahead += d
}
