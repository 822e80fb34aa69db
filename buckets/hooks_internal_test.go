package buckets

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryHookIsCalledThatWasAdded(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[Hooks]().NumField() {
		var called []string
		hooks := func(name string) (h Hooks) {
			field := reflect.ValueOf(&h).Elem().Field(i)
			field.Set(reflect.MakeFunc(field.Type(), func([]reflect.Value) []reflect.Value { called = append(called, name); return nil }))
			return h
		}
		m := NewRESTBucketManager(WithHooks(hooks("first")))
		m.AddHooks(Hooks{})
		m.AddHooks(hooks("second"))
		hook := reflect.ValueOf(m.hooks.Load()).Elem().Field(i)
		arguments := make([]reflect.Value, hook.Type().NumIn())
		for j := range arguments {
			arguments[j] = reflect.Zero(hook.Type().In(j))
		}
		hook.Call(arguments)
		assert.Equal(t, []string{"first", "second"}, called, reflect.TypeFor[Hooks]().Field(i).Name)
	}
}
