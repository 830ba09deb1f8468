package vet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"reflect"

	"github.com/goretry/retry"
)

// evaluate sets fields of p, and returns p. The map `fields` maps the name of a field to the
// expression whose value the field gets. If the value of a field is not constant, the field is zero
// and `known` is false.
func (u *uses) evaluate(p retry.Policy, fields map[string]ast.Expr) (_ retry.Policy, known bool) {
	known = true
	for name, x := range fields {
		field, ok := reflect.ValueOf(&p).Elem().FieldByName(name), true
		switch {
		case name == "Classify":
			p.Classify, ok = func(error) *retry.Class { return nil }, u.operation(x) != nil
		case field.Kind() != reflect.Func:
			value := reflect.New(field.Type()).Elem()
			ok = u.eval(value, x)
			field.Set(value)
		}
		known = known && ok
	}
	return p, known
}

// curves maps the names of the library's backoffs and jitters to their types. If an interface field
// of a policy, such as Backoff, has a value of another type, the method `eval` does not know the
// value.
var curves = map[string]reflect.Type{
	"Fixed":        reflect.TypeFor[retry.Fixed](),
	"Linear":       reflect.TypeFor[retry.Linear](),
	"Fibonacci":    reflect.TypeFor[retry.Fibonacci](),
	"Exponential":  reflect.TypeFor[retry.Exponential](),
	"Schedule":     reflect.TypeFor[retry.Schedule](),
	"Proportional": reflect.TypeFor[retry.Proportional](),
	"Spread":       reflect.TypeFor[retry.Spread](),
}

// eval sets v to the value of x. If x is not constant, v is unchanged and ok is false.
func (u *uses) eval(v reflect.Value, x ast.Expr) (ok bool) {
	if x = u.value(x); x == nil || u.info.Types[x].IsNil() {
		return x != nil
	}
	made := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Interface:
		curve := curves[u.retryType(x)]
		if curve == nil {
			return false
		}
		made = reflect.New(curve).Elem()
		ok = u.eval(made, x)
	case reflect.Pointer:
		made = reflect.New(v.Type().Elem())
		address, isAddress := x.(*ast.UnaryExpr)
		ok = isAddress && u.eval(made.Elem(), address.X)
	case reflect.Struct, reflect.Slice:
		literal, isLiteral := x.(*ast.CompositeLit)
		ok = isLiteral && u.evalElements(made, literal)
	default:
		value := u.info.Types[x].Value
		ok = value != nil && setConstant(made, value)
	}
	if ok {
		v.Set(made)
	}
	return ok
}

// evalElements sets the fields of the struct v, or the elements of the slice v, to the values in a
// literal. It returns false if a value is not constant.
func (u *uses) evalElements(v reflect.Value, literal *ast.CompositeLit) bool {
	for _, x := range literal.Elts {
		pair, keyed := x.(*ast.KeyValueExpr)
		if keyed != (v.Kind() == reflect.Struct) {
			return false
		}
		if keyed {
			if !u.eval(v.FieldByName(types.ExprString(pair.Key)), pair.Value) {
				return false
			}
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if !u.eval(element, x) {
			return false
		}
		v.Set(reflect.Append(v, element))
	}
	return true
}

// setConstant sets v, which is a number, a bool or a string, to a constant. ok is false if v cannot
// hold the constant.
func setConstant(v reflect.Value, c constant.Value) (ok bool) {
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(constant.BoolVal(c))
		return true
	case v.Kind() == reflect.String:
		v.SetString(constant.StringVal(c))
		return true
	case v.CanFloat():
		f, _ := constant.Float64Val(constant.ToFloat(c))
		v.SetFloat(f)
		return true
	}
	n, exact := constant.Int64Val(constant.ToInt(c))
	v.Set(reflect.ValueOf(n).Convert(v.Type()))
	return exact && v.Convert(reflect.TypeFor[int64]()).Int() == n
}
