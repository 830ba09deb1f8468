package retrysql

import "reflect"

// structOf returns the struct `value`, or the struct to which the pointer `value` points. It
// returns the zero reflect.Value if there is no such struct, or if the name of the struct's type is
// not typeName.
func structOf(value any, typeName string) reflect.Value {
	v := reflect.Indirect(reflect.ValueOf(value))
	if v.Kind() != reflect.Struct || v.Type().Name() != typeName {
		return reflect.Value{}
	}
	return v
}

// field returns the value of a field of v, which is a result of structOf. The second result is
// false if v has no field of this name, or if the field is not a T.
func field[T any](v reflect.Value, name string) (value T, ok bool) {
	if !v.IsValid() {
		return value, false
	}
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanInterface() {
		return value, false
	}
	value, ok = f.Interface().(T)
	return value, ok
}
