// Command script runs a program in JavaScript with goja, over and over.
package main

import (
	"log"

	"github.com/dop251/goja"
)

// source makes objects, calls closures and methods, sorts, and joins strings.
const source = `
class Shape { constructor(side) { this.side = side } area() { return this.side * this.side } }
class Circle extends Shape { area() { return 3 * super.area() } }
function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2) }
const shapes = []
for (let i = 0; i < 1000; i++) shapes.push(i % 3 ? new Shape(i * 7919 % 101) : new Circle(i % 17))
const areas = shapes.map(s => s.area()).filter(a => a % 2).sort((a, b) => a - b)
const words = {}
for (const a of areas) words["w" + a % 13] = (words["w" + a % 13] || "") + a
let sum = fibonacci(14)
for (const w in words) for (let i = 0; i < words[w].length; i++) sum += words[w].charCodeAt(i)
sum`

func main() {
	program := goja.MustCompile("source.js", source, true)
	serve(func() {
		if _, err := goja.New().RunProgram(program); err != nil {
			log.Fatal(err)
		}
	})
}
