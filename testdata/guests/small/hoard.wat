;; Out of memory: hoard() grows its memory page by page, writing to each, until memory.grow fails (at 256 pages), then aborts by unreachable.
(module
  (memory (export "memory") 1 256)
  (func $grow (result i32)
    (local $page i32)
    (local.set $page (memory.grow (i32.const 1)))
    (if (i32.eq (local.get $page) (i32.const -1)) (then (call $abort)))
    (memory.fill (i32.shl (local.get $page) (i32.const 16)) (i32.const 0xa5) (i32.const 65536))
    (local.get $page))
  (func $abort unreachable)
  (func (export "hoard")
    (loop $more
      (drop (call $grow))
      (br $more))))
