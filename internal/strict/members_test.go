package strict_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/internal/strict"
)

func TestMembers(t *testing.T) {
	for _, row := range []struct {
		name, object string
		want         []string
	}{
		{"none", `{}`, nil},
		{"no object", `null`, nil},
		{"values of each kind", `{"a":"x","b":-1.5e3,"c":true,"d":null,"e":[1,2],"f":{"g":1}}`,
			[]string{`a "x"`, `b -1.5e3`, `c true`, `d null`, `e [1,2]`, `f {"g":1}`}},
		{"white space", "\n{ \"a\"\t:\r\n1 , \"b\" : \"x\" , \"c\":[ 1 , 2 ] }\n", []string{`a 1`, `b "x"`, `c [ 1 , 2 ]`}},
		{"text that looks like the end of a value", `{"a":"},\"b\":1\\","c":["}]",{"x":"]\\\""}],"\"}":2}`,
			[]string{`a "},\"b\":1\\"`, `c ["}]",{"x":"]\\\""}]`, `"} 2`}},
		{"duplicate keys", `{"a":1,"a":1,"\u0061":2}`, []string{`a 1`, `a 1`, `a 2`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for key, value := range strict.Members([]byte(row.object)) {
				got = append(got, fmt.Sprintf("%s %s", key, value))
			}
			assert.Equal(t, row.want, got)
		})
	}
	t.Run("the caller may stop early", func(t *testing.T) {
		for key := range strict.Members([]byte(`{"a":1,"b":2}`)) {
			assert.Equal(t, "a", string(key))
			break
		}
	})
	t.Run("JSON that is cut off ends", func(t *testing.T) {
		const whole = ` { "a\"" : "},\"b\":1\\" , "c\u0041":[ "}]" , {"x":"]\\\""}] , "d":1.5 } `
		require.True(t, json.Valid([]byte(whole)))
		for from := range whole {
			for to := from; to <= len(whole); to++ {
				n := 0
				for range strict.Members([]byte(whole[from:to])) {
					n++
				}
				assert.LessOrEqual(t, n, len(whole))
			}
		}
	})
}

func TestText(t *testing.T) {
	for _, row := range []struct {
		value, want string
		ok          bool
	}{
		{`""`, "", true},
		{`"x"`, "x", true},
		{`"a\n\u00e9\""`, "a\né\"", true},
		{"\"\xff\"", "\uFFFD", true},
		{`"`, "", false},
		{`5`, "", false},
		{`null`, "", false},
		{`["x"]`, "", false},
		{`"\x"`, "", false},
	} {
		got, ok := strict.Text([]byte(row.value))
		assert.Equal(t, row.want, string(got), row.value)
		assert.Equal(t, row.ok, ok, row.value)
	}
}
