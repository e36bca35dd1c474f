;; WASI: prints each argument, each variable of the environment, then "stdin:" and all of its input, a line each; exits with 0.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 4)
  ;; 0: iovec {pointer, length}; 8: count of what; 12: size of what, or bytes done; 16: texts
  (data (i32.const 16) "\nstdin:\n")
  ;; 1024: pointers to strings; 65536: strings or input
  (func $write (param $from i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $from))
    (i32.store (i32.const 4) (local.get $length))
    (if (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)) (then unreachable)))
  (func $length (param $string i32) (result i32)
    (local $at i32)
    (local.set $at (local.get $string))
    (block $end
      (loop $bytes
        (br_if $end (i32.eqz (i32.load8_u (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $bytes)))
    (i32.sub (local.get $at) (local.get $string)))
  (func $print (param $string i32)
    (call $write (local.get $string) (call $length (local.get $string)))
    (call $write (i32.const 16) (i32.const 1)))
  (func $print_all (param $count i32)
    (local $i i32)
    (block $done
      (loop $strings
        (br_if $done (i32.ge_u (local.get $i) (local.get $count)))
        (call $print (i32.load (i32.add (i32.const 1024) (i32.shl (local.get $i) (i32.const 2)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $strings))))
  (func $arguments
    (if (call $args_sizes_get (i32.const 8) (i32.const 12)) (then unreachable))
    (if (call $args_get (i32.const 1024) (i32.const 65536)) (then unreachable))
    (call $print_all (i32.load (i32.const 8))))
  (func $environment
    (if (call $environ_sizes_get (i32.const 8) (i32.const 12)) (then unreachable))
    (if (call $environ_get (i32.const 1024) (i32.const 65536)) (then unreachable))
    (call $print_all (i32.load (i32.const 8))))
  (func $read (result i32)
    (i32.store (i32.const 0) (i32.const 65536))
    (i32.store (i32.const 4) (i32.const 65536))
    (if (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 12)) (then unreachable))
    (i32.load (i32.const 12)))
  (func $echo
    (local $length i32)
    (call $write (i32.const 17) (i32.const 7))
    (block $end
      (loop $chunks
        (br_if $end (i32.eqz (local.tee $length (call $read))))
        (call $write (i32.const 65536) (local.get $length))
        (br $chunks))))
  (func (export "_start")
    (call $arguments)
    (call $environment)
    (call $echo)))
