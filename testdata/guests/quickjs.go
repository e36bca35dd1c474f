package guests

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// quickjsModule is QuickJS-ng, built by wasi-sdk, without names but those of its
// 449 exported functions.
var quickjsModule = Package{
	Registry: "npm", Name: "quickjs-wasi", Version: "3.6.2", File: "quickjs.wasm",
	SHA256: "d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9",
}

// quickjsScript counts the ways to place six queens, sorts and goes through JSON:
// calls, closures, properties, strings and the library of the interpreter.
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
