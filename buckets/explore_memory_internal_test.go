package buckets

import (
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// The parts of a manager point to each other, so a manager cannot be copied. To try several events in one state, the
// explorer saves the contents of all parts and later writes them back in place.

// objectGraph is a saved copy of a life, with its manager.
type objectGraph struct {
	found   map[objectKey]struct{} // nil after all objects have been saved
	objects []savedObject
	slices  []savedObject
	maps    []func() // functions that restore one map each
}

// savedObject holds value, which is an object or the elements of a slice, and saved, a copy of the contents of value.
type savedObject struct{ value, saved reflect.Value }

// objectKey identifies an object. The first field of a struct has the same address as the struct, so the type is part
// of the key.
type objectKey struct {
	at     unsafe.Pointer
	of     *follower
	length int
}

// saveState saves a life and all objects that it points to.
func saveState(l *life) *objectGraph {
	s := &objectGraph{found: make(map[objectKey]struct{}, 128)}
	s.save(unsafe.Pointer(l), lifeFollower)
	s.found = nil
	return s
}

// restore writes the saved contents back.
func (s *objectGraph) restore() {
	for i := range s.objects {
		s.objects[i].value.Set(s.objects[i].saved)
	}
	for i := range s.slices {
		reflect.Copy(s.slices[i].value, s.slices[i].saved)
	}
	for _, restoreMap := range s.maps {
		restoreMap()
	}
}

// isNew reports whether an object has not been saved yet, and marks it as saved.
func (s *objectGraph) isNew(at unsafe.Pointer, of *follower, length int) bool {
	key := objectKey{at, of, length}
	if _, known := s.found[key]; known || at == nil {
		return false
	}
	s.found[key] = struct{}{}
	return true
}

// save saves the object at an address and all objects that it points to.
func (s *objectGraph) save(p unsafe.Pointer, f *follower) {
	if !s.isNew(p, f, 1) {
		return
	}
	object := savedObject{reflect.NewAt(f.of, p).Elem(), reflect.New(f.of).Elem()}
	object.saved.Set(object.value)
	s.objects = append(s.objects, object)
	if f.follow != nil {
		f.follow(p, s)
	}
}

// follower saves the objects to which values of one type point.
type follower struct {
	of       reflect.Type
	maps     mapType
	key      *follower                              // saves the keys of a map
	elem     *follower                              // saves the elements of a map or slice
	constant bool                                   // no event changes a value of this type
	follow   func(p unsafe.Pointer, s *objectGraph) // nil if values point to no objects
}

// changing lists the packages with structs that events can change; constants lists the types of these packages that no
// event changes.
var (
	changing  = []string{"", "buckets", "ratelimits", "internal/fifo"}
	constants = []string{"settings", "smallWorld", "limitRule", "Hooks", "waiterPool", "Stats"}
)

// followers has the follower of each type. All followers are made before the explorer starts.
var (
	followers    = make(map[reflect.Type]*follower)
	lifeFollower = followerOf(reflect.TypeFor[life]())
)

func followerOf(t reflect.Type) *follower {
	if f := followers[t]; f != nil {
		return f
	}
	f := &follower{of: t}
	followers[t] = f
	switch t.Kind() {
	case reflect.Interface, reflect.Func, reflect.Chan:
		f.constant = true
	case reflect.Struct:
		pkg := strings.TrimPrefix(t.PkgPath(), "github.com/ratelight/ratelight/")
		if f.constant = !slices.Contains(changing, pkg) || slices.Contains(constants, t.Name()); !f.constant {
			f.follow = fieldsFollower(t)
		}
	case reflect.Pointer:
		var elem *follower // set below, because types can point to each other
		f.follow = func(p unsafe.Pointer, s *objectGraph) {
			if !elem.constant {
				s.save(*(*unsafe.Pointer)(p), elem)
			}
		}
		elem = followerOf(t.Elem())
	case reflect.Array:
		elem, size := followerOf(t.Elem()), t.Elem().Size()
		f.follow = func(p unsafe.Pointer, s *objectGraph) {
			for i := 0; i < t.Len() && elem.follow != nil; i++ {
				elem.follow(unsafe.Add(p, uintptr(i)*size), s)
			}
		}
	case reflect.Slice:
		f.follow = func(p unsafe.Pointer, s *objectGraph) { s.saveSlice(p, f) }
		f.elem = followerOf(t.Elem())
	case reflect.Map:
		f.follow = func(p unsafe.Pointer, s *objectGraph) { s.saveMap(p, f) }
		f.maps, f.key, f.elem = mapTypeOf(t), followerOf(t.Key()), followerOf(t.Elem())
	}
	return f
}

func fieldsFollower(t reflect.Type) func(p unsafe.Pointer, s *objectGraph) {
	type part struct {
		offset uintptr
		f      *follower
	}
	var parts []part
	for i := range t.NumField() {
		parts = append(parts, part{t.Field(i).Offset, followerOf(t.Field(i).Type)})
	}
	return func(p unsafe.Pointer, s *objectGraph) {
		for _, part := range parts {
			if part.f.follow != nil {
				part.f.follow(unsafe.Add(p, part.offset), s)
			}
		}
	}
}

func (s *objectGraph) saveSlice(p unsafe.Pointer, f *follower) {
	list := *(*[]struct{})(p)
	first := unsafe.Pointer(unsafe.SliceData(list))
	if len(list) == 0 || !s.isNew(first, f, len(list)) {
		return
	}
	object := savedObject{reflect.NewAt(f.of, p).Elem().Slice(0, len(list)),
		reflect.MakeSlice(f.of, len(list), len(list))}
	reflect.Copy(object.saved, object.value)
	s.slices = append(s.slices, object)
	for i := 0; i < len(list) && f.elem.follow != nil; i++ {
		f.elem.follow(unsafe.Add(first, uintptr(i)*f.of.Elem().Size()), s)
	}
}

func (s *objectGraph) saveMap(p unsafe.Pointer, f *follower) {
	if !s.isNew(*(*unsafe.Pointer)(p), f, 0) {
		return
	}
	s.maps = append(s.maps, f.maps.save(p, func(key, value unsafe.Pointer) {
		if f.key.follow != nil {
			f.key.follow(key, s)
		}
		if f.elem.follow != nil {
			f.elem.follow(value, s)
		}
	}))
}
