;; WASI: _start calls proc_exit(7) from eleven activations below itself; exit(depth, code) from as deep as asked.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func $descend (export "exit") (param $depth i32) (param $code i32)
    (if (i32.eqz (local.get $depth))
      (then (call $proc_exit (local.get $code)) unreachable))
    (call $descend (i32.sub (local.get $depth) (i32.const 1)) (local.get $code)))
  (func (export "_start") (call $descend (i32.const 10) (i32.const 7))))
