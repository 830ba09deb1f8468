package policyfile

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Each row of testdata/recognized.yaml says which system a document shows, or which dialect it only
// looks like.
func TestSystemsAreRecognized(t *testing.T) {
	data, err := os.ReadFile("testdata/recognized.yaml")
	require.NoError(t, err)
	var rows []struct {
		Is, Like, Repo, Path, Commit, At, Text string
		Lint                                   []string
	}
	require.NoError(t, yaml.Unmarshal(data, &rows))
	count := map[string]int{}
	for i, row := range rows {
		count["is "+row.Is]++
		count["like "+row.Like]++
		t.Run(path.Join(strconv.Itoa(i), row.Is+row.Like, row.Repo, row.Path), func(t *testing.T) {
			name := "file.json"
			if strings.HasSuffix(row.Path, ".json") {
				name = path.Base(row.Path)
			}
			assert.Equal(t, row.Repo == "", row.Commit == "")
			file, err := Parse(name, []byte(row.Text))
			require.NoError(t, err)
			var lint []string
			blocks := file.Find(row.At)
			require.NotEmpty(t, blocks)
			for _, b := range blocks {
				does, isUnread := unread[row.Is]
				switch note := b.Unread(); {
				case row.Like != "":
					assert.False(t, b.Known(), b.At)
					assert.Nil(t, note)
				case isUnread:
					assert.False(t, b.Known(), b.At)
					require.NotNil(t, note)
					assert.Contains(t, note.Text, " is a setting of "+row.Is+", which retry does not read: "+does)
				default:
					assert.True(t, b.Known() || row.At != "")
					p, dialect, faults := b.Read("")
					assert.Equal(t, row.Is, dialect)
					for _, fault := range append(faults, b.Lint(p)...) {
						lint = append(lint, fault.Code)
					}
				}
			}
			slices.Sort(lint)
			assert.Equal(t, row.Lint, slices.Compact(lint))
		})
	}
	for _, d := range dialects {
		assert.GreaterOrEqual(t, count["is "+d.name], 10, "is "+d.name)
		assert.GreaterOrEqual(t, count["like "+d.name], 10, "like "+d.name)
	}
}

func TestJobsGetANote(t *testing.T) {
	const job = "apiVersion: batch/v1\nkind: Job\nspec: "
	for name, test := range map[string]struct{ text, title string }{
		"plain":              {job + "{backoffLimit: 4}", "a Kubernetes Job"},
		"by index":           {job + "{backoffLimit: 4, backoffLimitPerIndex: 1}", "a Job that counts by index"},
		"podFailurePolicy":   {job + "{backoffLimit: 4, podFailurePolicy: {rules: [{action: FailJob}]}}", "a Job with a podFailurePolicy"},
		"OnFailure":          {job + "{backoffLimit: 4, template: {spec: {restartPolicy: OnFailure}}}", "a Job whose pods restart"},
		"Never":              {job + "{backoffLimit: 4, template: {spec: {restartPolicy: Never}}}", "a Kubernetes Job"},
		"no retries":         {job + "{backoffLimit: 0}", ""},
		"no retries in pods": {job + "{backoffLimit: 0, template: {spec: {restartPolicy: OnFailure}}}", "a Job whose pods restart"},
		"in a CronJob":       {"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {backoffLimit: 1}}}}", "a Kubernetes Job"},
		"in a List":          {"{apiVersion: v1, kind: List, items: [{apiVersion: batch/v1, kind: Job, spec: {backoffLimit: 1}}]}", "a Kubernetes Job"},
		"of another system":  {"{apiVersion: example.com/v1, kind: Job, spec: {backoffLimit: 4}}", ""},
		"in a schema":        {"{kind: CustomResourceDefinition, properties: {spec: {properties: {backoffLimit: {type: integer}}}}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			require.NoError(t, err)
			note := file.Find("")[0].Unread()
			if test.title == "" {
				assert.Nil(t, note)
				return
			}
			require.NotNil(t, note)
			assert.Contains(t, note.Text, " is a setting of "+test.title+", which retry does not read: "+unread[test.title])
		})
	}
	for _, s := range shapes {
		assert.True(t, readable(s.system) != "" || unread[s.system] != "", s.system)
	}
}

// A document in a text of a resource is read at a path of its own, with the lines of the file.
func TestDocumentsInTextsAreRead(t *testing.T) {
	const relay = `apiVersion: v1
kind: ConfigMap
data:
  readme: "no: mapping: here"
  relay: |
    exporters:
      otlp/2:
        timeout: 3s
        retry_on_failure: {initial_interval: 1, max_interval: -1s}
  policy.yaml: "{max_attempts: 3, backoff: {type: fixed, base: 1s}}"
`
	file, err := Parse("file.yaml", []byte(relay))
	require.NoError(t, err)
	for at, want := range map[string]string{
		"data.relay": "data.relay.exporters.otlp/2.retry_on_failure otel 9",
		"data.relay.exporters.*.retry_on_failure": "data.relay.exporters.otlp/2.retry_on_failure otel 9",
		"data.policy.yaml":                        "data.policy.yaml native 10",
		"":                                        "data.relay.exporters.otlp/2.retry_on_failure otel 9; data.policy.yaml native 10",
	} {
		var got []string
		for _, b := range file.Find(at) {
			_, name, faults := b.Read("")
			line := b.Line
			for _, fault := range faults {
				line = fault.Line
			}
			got = append(got, strings.Join([]string{b.At, name, strconv.Itoa(line)}, " "))
		}
		assert.Equal(t, want, strings.Join(got, "; "), at)
	}
	block, fault := file.Only("data.relay")
	require.Nil(t, fault)
	assert.Equal(t, "otlp/2", block.beside.key)
	assert.Equal(t, "exporters", block.beside.up.key)
	assert.Nil(t, block.beside.up.up.up, "the document in the text is the outermost")
}

// The limit on nodes counts all documents of a file together.
func TestNodesOfAllDocuments(t *testing.T) {
	const document = "a: {b: [1, 2]}\n---\n"
	_, err := Parse("file.yaml", []byte(strings.Repeat(document, mostFileNodes/16)))
	require.NoError(t, err)
	_, err = Parse("file.yaml", []byte(strings.Repeat(document, mostFileNodes/7+1)))
	require.ErrorContains(t, err, "up to this line, the file has more than 250000 keys and values")
	_, err = Parse("file.json", []byte("["+strings.Repeat("1,\n", mostFileNodes)+"1]"))
	require.ErrorContains(t, err, "up to this line, the file has more than 250000 keys and values")
}
