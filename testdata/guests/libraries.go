package guests

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// sqliteModule is SQLite 3.50.4 with a name section, built by wasi-sdk: a library
// that leaves files to the host. A database in memory needs none.
var sqliteModule = Package{
	Registry: "go", Name: "github.com/ncruces/go-sqlite3", Version: "v0.30.0", File: "embed/sqlite3.wasm",
	SHA256: "e0f1c0053503efb82c5e9df1ccfc4a7d6d5c51beac54b9ad9aed27e22e320a81",
}

// sqliteRound fills a table, indexes it, asks it four questions and drops it. 7919
// has no factor in common with 1000, so every kind comes five times.
const sqliteRound = `
CREATE TABLE item(id INTEGER PRIMARY KEY, kind INT, name TEXT);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
	INSERT INTO item(kind, name) SELECT i * 7919 % 1000, 'name ' || (i % 97) FROM n;
CREATE INDEX item_kind ON item(kind);
SELECT count(*), sum(kind) FROM item;
SELECT count(*) FROM item a JOIN item b ON a.kind = b.kind;
SELECT count(DISTINCT name) FROM item WHERE name LIKE 'name %';
SELECT kind, count(*) FROM item GROUP BY kind ORDER BY kind DESC LIMIT 1;
DROP TABLE item;
`

const sqliteAnswers = "5000|2497500\n25000\n97\n999|5\n"

// SQLite is a database: it runs a script of SQL in memory.
func SQLite(rounds int) Guest {
	return Guest{
		Name:   "sqlite",
		Want:   strings.Repeat(sqliteAnswers, rounds),
		From:   FromProxy,
		obtain: func(ctx context.Context) (string, error) { return Fetch(ctx, "sqlite", sqliteModule) },
		drive: func(ctx context.Context, module api.Module) (string, error) {
			l := &library{ctx: ctx, module: module, malloc: "sqlite3_malloc64"}
			output := runSQL(l, strings.Repeat(sqliteRound, rounds))
			return output, l.err
		},
	}
}

// Of sqlite3.h.
const (
	sqliteRow           = 100
	sqliteDone          = 101
	sqliteOpenReadWrite = 0x02
	sqliteOpenCreate    = 0x04
	sqliteOpenMemory    = 0x80
)

// runSQL runs the statements of a script and returns the rows, in lines.
func runSQL(l *library, script string) string {
	const flags = sqliteOpenReadWrite | sqliteOpenCreate | sqliteOpenMemory
	result := l.alloc(8) // of a call, in its first word; the rest of the script, in its second
	sqliteCheck(l, 0, l.call("sqlite3_open_v2", l.text(":memory:"), result, flags, 0))
	database := l.pointer(result)
	var rows strings.Builder
	next := l.text(script)
	for l.err == nil {
		sqliteCheck(l, database, l.call("sqlite3_prepare_v3", database, next, ^uint64(0)>>32, 0, result, result+4))
		statement := l.pointer(result)
		if statement == 0 {
			break // the end of the script
		}
		next = l.pointer(result + 4)
		step(l, database, statement, &rows)
	}
	l.call("sqlite3_close", database)
	return rows.String()
}

// step runs one statement.
func step(l *library, database, statement uint64, rows *strings.Builder) {
	for l.err == nil {
		code := l.call("sqlite3_step", statement)
		if code != sqliteRow {
			if code != sqliteDone {
				sqliteCheck(l, database, code)
			}
			break
		}
		for column := range l.call("sqlite3_column_count", statement) {
			if column > 0 {
				rows.WriteByte('|')
			}
			rows.WriteString(l.string(l.call("sqlite3_column_text", statement, column)))
		}
		rows.WriteByte('\n')
	}
	l.call("sqlite3_finalize", statement)
}

func sqliteCheck(l *library, database, code uint64) {
	if l.err == nil && code != 0 {
		message := ""
		if database != 0 {
			message = l.string(l.call("sqlite3_errmsg", database))
		}
		l.err = fmt.Errorf("sqlite: error %d: %s", code, message)
	}
}

// quickjsModule is QuickJS-ng, built by wasi-sdk. Only its 449 exported functions have
// names.
var quickjsModule = Package{
	Registry: "npm", Name: "quickjs-wasi", Version: "3.6.2", File: "quickjs.wasm",
	SHA256: "d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9",
}

// quickjsScript counts the ways to place six queens, sorts and goes through JSON: calls,
// closures, properties, strings and the interpreter's library.
const quickjsScript = `
class Board {
	constructor(size) { this.size = size; this.columns = []; this.calls = 0; this.solutions = 0 }
	free(column) {
		const row = this.columns.length
		return this.columns.every((c, r) => c !== column && Math.abs(c - column) !== row - r)
	}
	place() {
		this.calls++
		if (this.columns.length === this.size) { this.solutions++; return }
		for (let column = 0; column < this.size; column++) {
			if (!this.free(column)) continue
			this.columns.push(column)
			this.place()
			this.columns.pop()
		}
	}
}
function round() {
	const board = new Board(6)
	for (let i = 0; i < 5; i++) board.place()
	const numbers = Array.from({length: 1000}, (_, i) => i * 7919 % 1009).sort((a, b) => a - b)
	const back = JSON.parse(JSON.stringify({board, numbers}))
	return [back.board.solutions, back.board.calls, back.numbers[999]]
}
let total = [0, 0, 0]
for (let i = 0; i < rounds; i++) total = round().map((n, j) => n + total[j])
total.join(" ")
`

// QuickJS is an interpreter of JavaScript.
func QuickJS(rounds int) Guest {
	return Guest{
		Name: "quickjs",
		// Six queens have 4 solutions, found by 153 calls of place.
		Want:   fmt.Sprintf("%d %d %d", rounds*5*4, rounds*5*153, rounds*1008),
		From:   FromNPM,
		obtain: func(ctx context.Context) (string, error) { return Fetch(ctx, "quickjs", quickjsModule) },
		drive: func(ctx context.Context, module api.Module) (string, error) {
			l := &library{ctx: ctx, module: module, malloc: "wasm_malloc"}
			output := runScript(l, fmt.Sprintf("const rounds = %d\n", rounds)+quickjsScript)
			return output, l.err
		},
	}
}

// runScript returns the value of a script's last expression as text.
func runScript(l *library, script string) string {
	if code := l.call("qjs_init"); l.err == nil && code != 0 {
		l.err = fmt.Errorf("quickjs: qjs_init returned %d", code)
	}
	value := l.call("qjs_eval", l.text(script), uint64(len(script)), l.text("script.js"), 0)
	thrown := l.call("qjs_is_exception", value) != 0
	if thrown {
		value = l.call("qjs_get_exception")
	}
	text := l.string(l.call("qjs_get_string", value))
	if thrown && l.err == nil {
		l.err = fmt.Errorf("quickjs: %s", text)
	}
	return text
}

// library calls the exports of a guest that is a library in C. The first error stays.
// Later calls do nothing and return 0, so the caller checks the error once.
type library struct {
	ctx    context.Context
	module api.Module
	malloc string // the export that allocates
	err    error
}

func (l *library) call(name string, args ...uint64) uint64 {
	if l.err != nil {
		return 0
	}
	function := l.module.ExportedFunction(name)
	if function == nil {
		l.err = fmt.Errorf("guest exports no %s", name)
		return 0
	}
	results, err := function.Call(l.ctx, args...)
	if err != nil {
		l.err = fmt.Errorf("call %s: %w", name, err)
		return 0
	}
	if len(results) == 0 {
		return 0
	}
	return results[0]
}

// alloc returns the address of n bytes of zeros.
func (l *library) alloc(n int) uint64 {
	address := l.call(l.malloc, uint64(n))
	l.write(address, make([]byte, n))
	return address
}

// text returns the address of a copy of s with a zero after it.
func (l *library) text(s string) uint64 {
	address := l.call(l.malloc, uint64(len(s)+1))
	l.write(address, append([]byte(s), 0))
	return address
}

func (l *library) write(address uint64, content []byte) {
	if l.err == nil && !l.module.Memory().Write(uint32(address), content) {
		l.err = fmt.Errorf("write %d bytes at %#x: out of the guest's memory", len(content), address)
	}
}

// pointer returns the pointer at an address.
func (l *library) pointer(address uint64) uint64 {
	value, ok := l.module.Memory().ReadUint32Le(uint32(address))
	if l.err == nil && !ok {
		l.err = fmt.Errorf("read at %#x: out of the guest's memory", address)
	}
	return uint64(value)
}

// string returns the text at an address, up to its zero. At address 0 it is empty.
func (l *library) string(address uint64) string {
	if l.err != nil || address == 0 {
		return ""
	}
	memory := l.module.Memory()
	rest, ok := memory.Read(uint32(address), memory.Size()-uint32(address))
	end := bytes.IndexByte(rest, 0)
	if !ok || end < 0 {
		l.err = fmt.Errorf("read text at %#x: out of the guest's memory", address)
		return ""
	}
	return string(rest[:end])
}
