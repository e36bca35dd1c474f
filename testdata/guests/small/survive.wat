;; Goes on after calls back that have failed: run(n) calls env.callback(n) from two depths, for which the host may call the exports descend(), which recurs to the stack's limit, and reenter(n), which calls env.callback(n-1) while n > 0.
(module
  (import "env" "callback" (func $callback (param i32)))
  (func $work
    (local $rounds i32)
    (local.set $rounds (i32.const 100))
    (loop $again
      (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
      (br_if $again (local.get $rounds))))
  (func $down
    (param $p0 i64) (param $p1 i64) (param $p2 i64) (param $p3 i64) (param $p4 i64) (param $p5 i64) (param $p6 i64) (param $p7 i64)
    (param $p8 i64) (param $p9 i64) (param $p10 i64) (param $p11 i64) (param $p12 i64) (param $p13 i64) (param $p14 i64) (param $p15 i64)
    (param $p16 i64) (param $p17 i64) (param $p18 i64) (param $p19 i64) (param $p20 i64) (param $p21 i64) (param $p22 i64) (param $p23 i64)
    (param $p24 i64) (param $p25 i64) (param $p26 i64) (param $p27 i64) (param $p28 i64) (param $p29 i64) (param $p30 i64) (param $p31 i64) (result i64)
    (i64.add (local.get $p31) (call $down
      (local.get $p31) (local.get $p0) (local.get $p1) (local.get $p2) (local.get $p3) (local.get $p4) (local.get $p5) (local.get $p6)
      (local.get $p7) (local.get $p8) (local.get $p9) (local.get $p10) (local.get $p11) (local.get $p12) (local.get $p13) (local.get $p14)
      (local.get $p15) (local.get $p16) (local.get $p17) (local.get $p18) (local.get $p19) (local.get $p20) (local.get $p21) (local.get $p22)
      (local.get $p23) (local.get $p24) (local.get $p25) (local.get $p26) (local.get $p27) (local.get $p28) (local.get $p29) (local.get $p30))))
  (func $leave (param $n i32)
    (call $callback (local.get $n))
    (call $work))
  (func $descend (export "descend") (result i64)
    (call $down
      (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4) (i64.const 5) (i64.const 6) (i64.const 7) (i64.const 8)
      (i64.const 9) (i64.const 10) (i64.const 11) (i64.const 12) (i64.const 13) (i64.const 14) (i64.const 15) (i64.const 16)
      (i64.const 17) (i64.const 18) (i64.const 19) (i64.const 20) (i64.const 21) (i64.const 22) (i64.const 23) (i64.const 24)
      (i64.const 25) (i64.const 26) (i64.const 27) (i64.const 28) (i64.const 29) (i64.const 30) (i64.const 31) (i64.const 32)))
  (func $reenter (export "reenter") (param $n i32)
    (call $work)
    (if (i32.gt_s (local.get $n) (i32.const 0))
      (then (call $leave (i32.sub (local.get $n) (i32.const 1)))))
    (call $work))
  (func $run (export "run") (param $n i32)
    (call $work)
    (call $leave (local.get $n))
    (call $callback (local.get $n))
    (call $leave (local.get $n))))
