// Command sqlite queries a database in memory, over and over, with a function in Go
// that SQLite calls.
package main

import (
	"database/sql"
	"log"

	"github.com/mattn/go-sqlite3"
)

func main() {
	sql.Register("field", &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		return c.RegisterFunc("weigh", func(a, b int64) int64 { return (a*31 + b) % 1009 }, true)
	}})
	serve(query)
}

// query fills a database and asks it.
func query() {
	db, err := sql.Open("field", ":memory:")
	check(err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE words (id INTEGER PRIMARY KEY, length INTEGER, word TEXT);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5000)
		INSERT INTO words SELECT i, i*7919%1000, printf('word %d of many', i*31%997) FROM n;
		CREATE INDEX by_word ON words(word)`)
	check(err)
	rows, err := db.Query(`SELECT word, count(*), sum(weigh(id, length)) FROM words
		WHERE word LIKE '%7%' GROUP BY word ORDER BY 3 DESC`)
	check(err)
	defer rows.Close()
	for rows.Next() {
		var word string
		var n, weight int64
		check(rows.Scan(&word, &n, &weight))
	}
	check(rows.Err())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
