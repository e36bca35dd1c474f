package guests

import (
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
	result := l.alloc(8) // of a call, at its first word; the rest of the script, at its second
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
