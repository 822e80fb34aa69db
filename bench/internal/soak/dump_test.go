package soak

import (
	"reflect"
	"time"
	"unsafe"
)

// dump searches every string and every run of bytes that can be reached from a value, whatever stands between:
// unexported fields, pointers, maps of package sync and its like. It takes no locks, so nothing of it may change
// meanwhile. What hides behind functions and channels it does not see.
func (s *searcher) dump(where string, value any) {
	_ = time.Local.String() // read from the system when it is used first, which may be while we look
	d := dumper{searcher: s, where: where, seen: make(map[visit]struct{})}
	d.visit(reflect.ValueOf(value))
}

// dumper walks through a value once.
type dumper struct {
	*searcher
	where string
	seen  map[visit]struct{}
}

type visit struct {
	address unsafe.Pointer
	of      reflect.Type
}

// again reports whether a place was visited before.
func (d *dumper) again(address unsafe.Pointer, of reflect.Type) bool {
	key := visit{address, of}
	_, seen := d.seen[key]
	d.seen[key] = struct{}{}
	return seen
}

// foreign reports types that lead out of what is tested: to the simulator, to the search itself, and to the runtime.
func foreign(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[searcher](), reflect.TypeFor[openBodies](), reflect.TypeFor[soak](), reflect.TypeFor[roundTripper]():
		return true
	}
	return t.PkgPath() == "reflect" || t.PkgPath() == "internal/abi"
}

func (d *dumper) visit(v reflect.Value) {
	if !v.IsValid() || foreign(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		d.text(d.where, []byte(v.String()))
	case reflect.Pointer:
		if !v.IsNil() && !d.again(v.UnsafePointer(), v.Type()) {
			d.visit(v.Elem())
		}
	case reflect.Interface:
		d.visit(v.Elem())
	case reflect.Map:
		if v.IsNil() || d.again(v.UnsafePointer(), v.Type()) {
			return
		}
		for entries := v.MapRange(); entries.Next(); {
			d.visit(entries.Key())
			d.visit(entries.Value())
		}
	case reflect.Slice:
		if v.IsNil() || v.Len() > 0 && d.again(v.UnsafePointer(), v.Type()) {
			return
		}
		d.elements(v.Slice(0, v.Cap())) // what was cut off is still there
	case reflect.Array:
		d.elements(v)
	case reflect.Struct:
		d.structure(v)
	}
}

func (d *dumper) elements(v reflect.Value) {
	switch v.Type().Elem().Kind() {
	case reflect.Uint8:
		content := make([]byte, v.Len())
		for i := range content {
			content[i] = byte(v.Index(i).Uint())
		}
		d.text(d.where, content)
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Array, reflect.Struct, reflect.String:
		for i := range v.Len() {
			d.visit(v.Index(i))
		}
	}
}

func (d *dumper) structure(v reflect.Value) {
	if d.entries(v) || d.pointee(v) {
		return
	}
	for i := range v.NumField() {
		d.visit(v.Field(i))
	}
}

// entries visits the entries of a concurrent map, which hides them behind pointers without a type. It reports false for
// any other value.
func (d *dumper) entries(v reflect.Value) bool {
	if !v.CanAddr() {
		return false
	}
	open := reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())) // as if its field were exported
	each := open.MethodByName("Range")
	if !each.IsValid() || each.Type().NumIn() != 1 || each.Type().In(0).Kind() != reflect.Func {
		return false
	}
	going := []reflect.Value{reflect.ValueOf(true)}
	each.Call([]reflect.Value{reflect.MakeFunc(each.Type().In(0), func(entry []reflect.Value) []reflect.Value {
		for _, part := range entry {
			d.visit(part)
		}
		return going
	})})
	return true
}

// pointee visits what an atomic.Pointer points to. Its type is that of a field which is there for that.
func (d *dumper) pointee(v reflect.Value) bool {
	if v.Type().PkgPath() != "sync/atomic" || v.NumField() == 0 {
		return false
	}
	pointer, of := v.FieldByName("v"), v.Field(0).Type()
	if pointer.Kind() != reflect.UnsafePointer || of.Kind() != reflect.Array {
		return false
	}
	if p := pointer.UnsafePointer(); p != nil {
		d.visit(reflect.NewAt(of.Elem().Elem(), p))
	}
	return true
}
