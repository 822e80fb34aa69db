package buckets

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// digest is a hash of everything that a server and its limits remember. Reflection finds the fields, so the digest
// includes new fields without a change in this file. Two states with the same digest are treated as the same state.
//
// Instants and spans have the same type (time.Duration), but an instant is added as its difference from now. The
// manager's clock starts at 72 hours (the constant past) and no span is longer than 24 hours. So large values are
// instants and small values are spans.
type digest struct {
	sum   uint64
	now   time.Duration
	seen  [1 << 9]numbered // a hash table of the objects read so far
	met   uint64           // how many objects have been read
	plain bool             // do not follow pointers
	counters
}

// numbered is an object and its number in the order of reading. The first field of a struct has the same address as the
// struct, so the type is part of the key.
type numbered struct {
	at     unsafe.Pointer
	read   *reader
	number uint64
}

// counters has the current values of the counters of the object that is being read. A field that holds an earlier value
// of a counter (see countsFrom) is read as the difference from the current value.
type counters struct{ answered, expired, sent, slots uint64 }

// find returns the place of an object in the table. The place is empty if the object has not been read.
func (d *digest) find(at unsafe.Pointer, read *reader) *numbered {
	for i := uintptr(at)>>3 ^ uintptr(unsafe.Pointer(read))>>4; ; i++ {
		if n := &d.seen[i%uintptr(len(d.seen))]; n.number == 0 || n.at == at && n.read == read {
			return n
		}
	}
}

func (d *digest) add(v uint64) {
	d.sum = (d.sum ^ v) * 0x9E3779B97F4A7C15
	d.sum ^= d.sum >> 29
}

func (d *digest) addTime(v time.Duration) {
	switch {
	case v > past/3*2 && v < math.MaxInt64/2:
		// The difference is rounded, because arrivals at one instant are a nanosecond apart (see arrive).
		d.add(uint64((v - d.now).Round(time.Microsecond)) ^ 1<<63)
	case v > 0 && v < time.Microsecond: // a sequence number: only its order counts
		d.add(1)
	default:
		d.add(uint64(v))
	}
}

// addPointer adds the object that a pointer points to. If that object was read before, addPointer adds only its number.
func (d *digest) addPointer(at unsafe.Pointer, read *reader) {
	if at == nil {
		d.add(0)
		return
	}
	switch n := d.find(at, read); {
	case n.number > 0:
		d.add(n.number)
	case d.plain:
		d.add(1 << 40)
	case d.met == uint64(len(d.seen)/2):
		panic("too many objects")
	default:
		d.met++
		*n = numbered{at, read, d.met}
		d.add(d.met)
		(*read)(at, d)
	}
}

// numberOf returns the number of an object that was read, or 0 if it was not.
func numberOf[T any](d *digest, at *T) uint64 {
	return d.find(unsafe.Pointer(at), readerOf(reflect.TypeFor[T]())).number
}

// digestOf adds a value to the digest.
func digestOf[T any](d *digest, value *T) {
	(*readerOf(reflect.TypeFor[T]()))(unsafe.Pointer(value), d)
}

// reader adds the value at an address to the digest.
type reader func(p unsafe.Pointer, d *digest)

// ignored lists fields and whole types on which no decision depends: counters, times that only show an order, values
// that are only displayed, caches (line.needed repeats what the queues say), values that are the same in all states,
// and fields that are empty between two calls of the manager.
var ignored = []string{
	"buckets.server.manager", "buckets.server.mu", "buckets.server.timer", "buckets.server.after",
	"buckets.server.touched", "buckets.server.free", "buckets.server.latest", "buckets.server.spare",
	"buckets.server.counts", "buckets.server.budget", "buckets.server.ranked", "buckets.bucket.arrived",
	"buckets.bucket.sent", "buckets.line.needed", "buckets.held.generation", "buckets.grant.route",
	"buckets.grant.fields", "buckets.grant.ctx", "buckets.ask.ctx", "buckets.waiter.reason", "buckets.waiter.ready",
	"buckets.opening", "buckets.limitRule", "buckets.Request", "ratelimits.Window.answered",
	"ratelimits.Window.expired", "ratelimits.Global.samples", "Queue.finger", "Queue.rank",
}

func isIgnored(name string) bool { return slices.Contains(ignored, name) }

var readers = struct {
	sync.Mutex
	of map[reflect.Type]*reader
}{of: make(map[reflect.Type]*reader)}

func readerOf(t reflect.Type) *reader {
	readers.Lock()
	defer readers.Unlock()
	return makeReader(t)
}

// makeReader returns the address of a type's reader. The reader itself may be set later, because types can contain each
// other.
func makeReader(t reflect.Type) *reader {
	if r := readers.of[t]; r != nil {
		return r
	}
	r := new(reader)
	readers.of[t] = r
	*r = newReader(t)
	return r
}

// nameOf returns the name of a type. The name of a generic type has neither its package nor its type parameters.
func nameOf(t reflect.Type) string {
	if name, _, generic := strings.Cut(t.Name(), "["); generic {
		return name
	}
	return t.String()
}

func newReader(t reflect.Type) reader {
	switch {
	case isIgnored(nameOf(t)):
		return func(unsafe.Pointer, *digest) {}
	case t == reflect.TypeFor[time.Duration]():
		return func(p unsafe.Pointer, d *digest) { d.addTime(*(*time.Duration)(p)) }
	case strings.HasPrefix(t.String(), "routes."): // these objects are never copied, so the address is enough
		return bytesReader(t.Size())
	case nameOf(t) == "ring":
		return ringReader(t)
	}
	switch t.Kind() {
	case reflect.Func, reflect.Interface, reflect.Chan:
		return func(p unsafe.Pointer, d *digest) {
			if *(*unsafe.Pointer)(p) != nil {
				d.add(1)
			}
			d.add(2)
		}
	case reflect.String:
		return func(p unsafe.Pointer, d *digest) {
			for _, c := range []byte(*(*string)(p)) {
				d.add(uint64(c))
			}
			d.add(1 << 32)
		}
	case reflect.Pointer:
		elem := makeReader(t.Elem())
		return func(p unsafe.Pointer, d *digest) {
			d.addPointer(*(*unsafe.Pointer)(p), elem)
		}
	case reflect.Slice:
		elem, size := makeReader(t.Elem()), t.Elem().Size()
		return func(p unsafe.Pointer, d *digest) {
			s := (*[]struct{})(p)
			d.add(uint64(len(*s)))
			for i := range *s {
				(*elem)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(*s)), uintptr(i)*size), d)
			}
		}
	case reflect.Array:
		elem, size := makeReader(t.Elem()), t.Elem().Size()
		return func(p unsafe.Pointer, d *digest) {
			for i := range t.Len() {
				(*elem)(unsafe.Add(p, uintptr(i)*size), d)
			}
		}
	case reflect.Map:
		return mapTypeOf(t).reader()
	case reflect.Struct:
		return structReader(t)
	}
	return bytesReader(t.Size())
}

func bytesReader(size uintptr) reader {
	switch size {
	case 1:
		return func(p unsafe.Pointer, d *digest) { d.add(uint64(*(*uint8)(p))) }
	case 2:
		return func(p unsafe.Pointer, d *digest) { d.add(uint64(*(*uint16)(p))) }
	case 4:
		return func(p unsafe.Pointer, d *digest) { d.add(uint64(*(*uint32)(p))) }
	}
	return func(p unsafe.Pointer, d *digest) {
		for i := uintptr(0); i+8 <= size; i += 8 {
			d.add(*(*uint64)(unsafe.Add(p, i)))
		}
	}
}

// mapType has the functions that read, save and restore maps of one type.
type mapType struct {
	of     reflect.Type
	reader func() reader
	// save copies the map to which p points, and calls look with the copy of each entry. restore writes the copy back
	// into the map.
	save func(p unsafe.Pointer, look func(key, value unsafe.Pointer)) (restore func())
}

// mapTypes lists the map types by hand, because reflection on maps would take too long.
func mapTypes() []mapType {
	return []mapType{
		mapsOf[uint64, *account](),
		mapsOf[string, *server](),
		mapsOf[resource, time.Duration](),
		mapsOf[limitKey, *declaredLimit](),
		mapsOf[*declaredLimit, struct{}](),
		mapsOf[routes.Route, *routeEntry](),
		mapsOf[routes.Route, struct{}](),
		mapsOf[groupKey, *limitGroup](),
		mapsOf[string, *family](),
		mapsOf[major, []*held](),
		mapsOf[major, *bucket](),
		mapsOf[major, *limitGroup](),
		mapsOf[queueKey, *queue](),
		mapsOf[uint64, *queue](),
		mapsOf[uint64, *series](),
		mapsOf[*queue, struct{}](),
		mapsOf[*queue, time.Duration](),
		mapsOf[tenantKey, *tenant](),
	}
}

func mapTypeOf(t reflect.Type) mapType {
	for _, m := range mapTypes() {
		if m.of == t {
			return m
		}
	}
	panic("not one of mapTypes: " + t.String())
}

func mapsOf[K comparable, V any]() mapType {
	save := func(p unsafe.Pointer, look func(key, value unsafe.Pointer)) func() {
		m := *(*map[K]V)(p)
		saved := maps.Clone(m)
		for key, value := range saved {
			look(unsafe.Pointer(&key), unsafe.Pointer(&value))
		}
		return func() {
			clear(m)
			maps.Copy(m, saved)
		}
	}
	return mapType{reflect.TypeFor[map[K]V](), mapReader[K, V], save}
}

// mapReader reads the entries of a map in the order of their keys' digests. These digests do not follow pointers.
func mapReader[K comparable, V any]() reader {
	readKey, readValue := makeReader(reflect.TypeFor[K]()), makeReader(reflect.TypeFor[V]())
	type entry struct {
		order uint64
		key   K
		value V
	}
	return func(p unsafe.Pointer, d *digest) {
		m := *(*map[K]V)(p)
		d.add(uint64(len(m)))
		if len(m) == 0 {
			return
		}
		all := make([]entry, 0, len(m))
		for key, value := range m {
			all = append(all, entry{0, key, value})
		}
		if len(m) > 1 {
			sum := d.sum
			d.plain = true
			for i := range all {
				d.sum = 0
				(*readKey)(unsafe.Pointer(&all[i].key), d)
				all[i].order = d.sum
			}
			d.sum, d.plain = sum, false
			slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.order, b.order) })
		}
		for i := range all {
			(*readKey)(unsafe.Pointer(&all[i].key), d)
			(*readValue)(unsafe.Pointer(&all[i].value), d)
		}
	}
}

// ringReader returns a reader that reads only the entries of a ring that are in use.
func ringReader(t reflect.Type) reader {
	slice, _ := t.FieldByName("entries")
	first, end := field[uint64](t, "first"), field[uint64](t, "end")
	elem, size := makeReader(slice.Type.Elem()), slice.Type.Elem().Size()
	return func(p unsafe.Pointer, d *digest) {
		entries := *(*[]struct{})(p)
		d.add(end(p) - first(p))
		for n := first(p); n != end(p); n++ {
			at := n & uint64(len(entries)-1)
			(*elem)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(entries)), uintptr(at)*size), d)
		}
	}
}

// field returns a function that reads a field of a struct.
func field[T any](t reflect.Type, name string) func(p unsafe.Pointer) T {
	f, ok := t.FieldByName(name)
	if !ok || f.Type.Size() != unsafe.Sizeof(*new(T)) {
		panic("no such field: " + t.String() + "." + name)
	}
	return func(p unsafe.Pointer) T { return *(*T)(unsafe.Add(p, f.Offset)) }
}

func structReader(t reflect.Type) reader {
	type part struct {
		offset uintptr
		read   *reader
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		name := nameOf(t) + "." + f.Name
		if isIgnored(name) || f.Name == "_" || f.Type.Size() == 0 {
			continue
		}
		read := makeReader(f.Type)
		if from, ok := countsFrom[name]; ok {
			read = counterReader(f.Type.Size(), f.Name == "order" || f.Name == "number", from)
		}
		parts = append(parts, part{f.Offset, read})
	}
	enter := counting(t)
	all := func(p unsafe.Pointer, d *digest) {
		for _, f := range parts {
			(*f.read)(unsafe.Add(p, f.offset), d)
		}
	}
	if enter == nil {
		return all
	}
	return func(p unsafe.Pointer, d *digest) {
		before := d.counters
		if enter(p, d) {
			all(p, d)
		}
		d.counters = before
	}
}

// countsFrom lists the fields that hold an earlier value of a counter, each with a function that returns the counter's
// current value.
var countsFrom = map[string]func(*counters) uint64{
	"ratelimits.Window.countedAt": func(c *counters) uint64 { return c.answered },
	"ratelimits.Permit.answered":  func(c *counters) uint64 { return c.answered },
	"ratelimits.Permit.expired":   func(c *counters) uint64 { return c.expired },
	"buckets.grant.order":         func(c *counters) uint64 { return c.sent },
	"buckets.naming.order":        func(c *counters) uint64 { return c.sent },
	"ratelimits.Slot.number":      func(c *counters) uint64 { return c.slots },
}

func counterReader(size uintptr, zero bool, from func(*counters) uint64) *reader {
	read := reader(func(p unsafe.Pointer, d *digest) {
		value := uint64(0)
		if size == 4 {
			value = uint64(*(*uint32)(p))
		} else {
			value = *(*uint64)(p)
		}
		if zero && value == 0 { // 0 means no value
			d.add(1 << 50)
		} else {
			d.add(uint64(uint32(from(&d.counters) - value)))
		}
	})
	return &read
}

var (
	answeredOf = field[uint32](reflect.TypeFor[ratelimits.Window](), "answered")
	expiredOf  = field[uint32](reflect.TypeFor[ratelimits.Window](), "expired")
)

func (d *digest) countFromWindow(w *ratelimits.Window) {
	d.answered, d.expired = uint64(answeredOf(unsafe.Pointer(w))), uint64(expiredOf(unsafe.Pointer(w)))
}

func (d *digest) countFromBucket(b *bucket) {
	if b != nil {
		d.countFromWindow(&b.window)
		d.sent = uint64(b.sent)
	}
}

// counting returns a function that sets the counters for the fields of a struct, or nil if these fields need no
// counters. The returned function reports whether the fields of the struct still have to be read.
func counting(t reflect.Type) func(p unsafe.Pointer, d *digest) bool {
	switch nameOf(t) {
	case "ratelimits.charge":
		n := field[int32](t, "n")
		return func(p unsafe.Pointer, d *digest) bool { return n(p) > 0 }
	case "ratelimits.manyCharges":
		all, _ := t.FieldByName("all")
		elem, size := makeReader(all.Type.Elem()), all.Type.Elem().Size()
		list, gone := field[[]struct{}](t, "all"), field[int](t, "gone")
		return func(p unsafe.Pointer, d *digest) bool {
			for i := gone(p); i < len(list(p)); i++ {
				(*elem)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(list(p))), uintptr(i)*size), d)
			}
			return false
		}
	}
	switch t {
	case reflect.TypeFor[ratelimits.Window]():
		return func(p unsafe.Pointer, d *digest) bool { d.countFromWindow((*ratelimits.Window)(p)); return true }
	case reflect.TypeFor[bucket]():
		return func(p unsafe.Pointer, d *digest) bool { d.countFromBucket((*bucket)(p)); return true }
	case reflect.TypeFor[declaredPermit]():
		return func(p unsafe.Pointer, d *digest) bool {
			d.countFromWindow(&(*declaredPermit)(p).limit.window)
			return true
		}
	case reflect.TypeFor[provisionalCharge]():
		return func(p unsafe.Pointer, d *digest) bool { d.countFromBucket((*provisionalCharge)(p).bucket); return true }
	case reflect.TypeFor[grant]():
		sent, _ := reflect.TypeFor[ratelimits.Global]().FieldByName("sent")
		end := field[uint64](sent.Type, "end")
		return func(p unsafe.Pointer, d *digest) bool {
			g := (*grant)(p)
			d.countFromBucket(g.bucket)
			if g.account != nil {
				d.slots = end(unsafe.Add(unsafe.Pointer(g.account.global.limit), sent.Offset)) + 1
			}
			return true
		}
	}
	return nil
}
