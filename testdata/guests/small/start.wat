;; A start function that runs while the module is instantiated: it calls and loops, and leaves 5050 for value().
(module
  (global $value (mut i32) (i32.const 0))
  (func $sum (param $n i32) (result i32)
    (local $total i32)
    (loop $terms
      (local.set $total (i32.add (local.get $total) (local.get $n)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $terms (i32.gt_s (local.get $n) (i32.const 0))))
    (local.get $total))
  (func $begin (global.set $value (call $sum (i32.const 100))))
  (func (export "value") (result i32) (global.get $value))
  (start $begin))
