package vet

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/txtar"
)

// TestCases runs the checks on programs whose authors did not know the checks. A misuse is found if
// a check reports its line or its statement. Most of the missed misuses are found by other linters,
// or do no harm in an outage. u04_elapsed_alone and e03_deploy are missed because MaxElapsed counts
// as a limit.
//
// A report in a correct program is a false alarm. The columns perCall and response list programs
// that are correct only in the subject of their archive. These programs make a Transport for each
// call, or decode a body without a look at the status.
//
// The archives paging and unseen are about idempotent, endless and held. The archives kept and
// keptsealed are about percall and othermark.
func TestCases(t *testing.T) {
	halves := []struct {
		name     string
		found    int
		missed   string
		perCall  string
		response string
	}{
		{"paging", 29, "u04_elapsed_alone", "i09_transport_asks", ""},
		{"kept", 24, "", "", ""},
		{"keptsealed", 17, "s05_constructor_each_time", "", ""},
		{"unseen", 42, "c04_method c05_conflict e03_deploy e12_listen h16_within i08_runner i11_finetune", "cr05_default", ""},
		{"open", 15, "01_fan_out 06_weather_client 07_watch_orders 09_follow_leader 10_daily_revenue 15_confirm_email 17_flush_outbox 28_gives_up " +
			"33_dial_replica 34_poll_export 44_create_account 47_fetch_feed 56_instrument 59_find_user 60_download_manifest",
			"37_download_layer 42_store_avatar 84_release_coupon", ""},
		{"sealed", 12, "03_issue_token 13_charge_card 16_consume_forever 20_insert_shipment 23_open_invoices 24_emit_metrics 26_dispatch_jobs " +
			"27_update_shard 29_map_storage_error 31_parse_report 32_verify_artifact 35_list_members 37_load_flags " +
			"48_warm_cache 50_latest_build 53_retry_counter 55_open_session 57_stale_sessions", "", ""},
		{"later", 14, "07_flush_blank 08_once_dropped 12_tx_by_parameter 15_client_timeout_set_later 16_consumer_spins_when_empty " +
			"17_redial_without_pause 18_class_without_name 19_reason_misspelt 22_rows_appended_twice 23_total_summed_twice " +
			"24_inner_attempts 25_connect_method_sleeps 26_type_switch_on_result 27_equal_sentinel 29_shared_pcg " +
			"30_counting_source", "03_transport_request 37_set_body_stream", "01_request_in_attempt 05_closure_takes_context"},
		{"last", 17, "07_index_flush_dropped 08_push_once_dropped 14_region_timeouts 17_queue_spin 18_outbox_spin 19_class_payment 20_class_map " +
			"21_reason_text 22_reason_case 25_search_append 26_stock_count 27_device_sleep_loop 28_export_sleep_loop " +
			"29_dial_type_switch 30_profile_equal 33_log_fanout_rand 34_crawler_counter_source", "04_transport_outer_request", ""},
	}
	dir := module(t)
	archives := map[string]*txtar.Archive{}
	for _, half := range halves {
		archives[half.name] = txtar.Parse(unzipped(t, half.name))
		for _, file := range archives[half.name].Files {
			pkg := filepath.Join(dir, "cases", half.name, strings.TrimSuffix(file.Name, ".go"))
			require.NoError(t, os.MkdirAll(pkg, 0o700))
			data := bytes.ReplaceAll(file.Data, []byte(`"misuse/cases/`), []byte(`"misuse/cases/`+half.name+"/"))
			require.NoError(t, os.WriteFile(filepath.Join(pkg, "main.go"), data, 0o600))
		}
	}
	actions := map[string][]*checker.Action{} // by archive
	for _, action := range analyze(t, dir, "./cases/...") {
		half, _, _ := strings.Cut(strings.TrimPrefix(action.Package.PkgPath, "misuse/cases/"), "/")
		actions[half] = append(actions[half], action)
	}
	for _, half := range halves {
		t.Run(half.name, func(t *testing.T) {
			found, missed, alarms := score(t, archives[half.name], actions[half.name])
			assert.Equal(t, half.found, found)
			assert.Equal(t, half.missed, strings.Join(missed, " "))
			assert.Equal(t, half.perCall, strings.Join(alarms["percall"], " "))
			assert.Equal(t, half.response, strings.Join(alarms["response"], " "))
			delete(alarms, "percall")
			delete(alarms, "response")
			if half.name == "kept" { // these programs allow 21 and 31 attempts, and would stop after 11
				assert.Equal(t, []string{"k02_worker", "k04_wait_for_ready"}, alarms["policyliteral"])
				delete(alarms, "policyliteral")
			}
			assert.Empty(t, alarms)
		})
	}
}

// The archive sealed does not change.
func TestSealedArchiveIsUnchanged(t *testing.T) {
	want, err := os.ReadFile("testdata/cases/sealed.sha256")
	require.NoError(t, err)
	assert.Equal(t, string(want), fmt.Sprintf("%x  sealed.txtar\n", sha256.Sum256(unzipped(t, "sealed"))))
}

// unzipped returns an archive of cases. To read one: gunzip -c testdata/cases/open.txtar.gz
func unzipped(t *testing.T, half string) []byte {
	file, err := os.Open(filepath.Join("testdata", "cases", half+".txtar.gz"))
	require.NoError(t, err)
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	data, err := io.ReadAll(zipped)
	require.NoError(t, err)
	return data
}

// score returns how many misuses the checks find in an archive, the names of the missed misuses, and
// the correct programs that each check reports. Each program is a package.
func score(t *testing.T, archive *txtar.Archive, actions []*checker.Action) (found int, missed []string, alarms map[string][]string) {
	alarms = map[string][]string{}
	at := map[string]*checker.Action{}
	reported := map[string][]token.Pos{}
	for _, action := range actions {
		kind, base := path.Split(action.Package.PkgPath)
		name := path.Join(path.Base(kind), base)
		at[name] = action
		for _, d := range action.Diagnostics {
			reported[name] = append(reported[name], d.Pos)
			if path.Dir(name) == "correct" {
				alarms[action.Analyzer.Name] = append(alarms[action.Analyzer.Name], base)
			}
			t.Log(name, action.Package.Fset.Position(d.Pos).Line, d.Message)
		}
	}
	for _, file := range archive.Files {
		if name := strings.TrimSuffix(file.Name, ".go"); path.Dir(name) == "misuse" {
			if hit(t, at[name].Package, reported[name]) {
				found++
			} else {
				missed = append(missed, path.Base(name))
			}
		}
	}
	return found, missed, alarms
}

// hit reports whether one of the reported positions is on the line with "// want: ", or in the
// innermost statement of that line.
func hit(t *testing.T, p *packages.Package, reported []token.Pos) bool {
	file := p.Syntax[0]
	var want token.Pos
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "// want: ") {
				want = comment.Pos()
			}
		}
	}
	require.NotZero(t, want)
	lines := p.Fset.File(want)
	first := want // where the first node on the line begins
	for n := range ast.Preorder(file) {
		if lines.Line(n.Pos()) == lines.Line(want) {
			first = min(first, n.Pos())
		}
	}
	for _, pos := range reported {
		if lines.Line(pos) == lines.Line(want) || statement(file, pos) == statement(file, first) {
			return true
		}
	}
	return false
}

// statement returns the innermost statement or declaration at pos.
func statement(file *ast.File, pos token.Pos) ast.Node {
	around, _ := astutil.PathEnclosingInterval(file, pos, pos)
	for _, n := range around {
		switch n.(type) {
		case ast.Stmt, ast.Decl:
			return n
		}
	}
	return file
}
