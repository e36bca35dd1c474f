;; call_indirect: run(n) makes n calls from one site; of every 7, 4 reach square, 2 circle, 1 triangle. Returns the sum of the areas.
(module
  (type $area (func (param i32) (result i32)))
  (table funcref (elem $square $circle $triangle))
  (func $square (param $side i32) (result i32)
    (call $churn (i32.mul (local.get $side) (local.get $side))))
  (func $circle (param $radius i32) (result i32)
    (call $churn (i32.mul (i32.const 3) (i32.mul (local.get $radius) (local.get $radius)))))
  (func $triangle (param $side i32) (result i32)
    (call $churn (i32.shr_u (i32.mul (local.get $side) (local.get $side)) (i32.const 1))))
  (func $churn (param $x i32) (result i32)
    ;; the work of an area: 32 rounds that give back x
    (local $i i32)
    (loop $rounds
      (local.set $x (i32.rotl (local.get $x) (i32.const 1)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $rounds (i32.lt_s (local.get $i) (i32.const 32))))
    (local.get $x))
  (func $pick (param $i i32) (result i32)
    (local.set $i (i32.rem_u (local.get $i) (i32.const 7)))
    (i32.add (i32.ge_u (local.get $i) (i32.const 4)) (i32.ge_u (local.get $i) (i32.const 6))))
  (func (export "run") (param $n i32) (result i32)
    (local $i i32) (local $sum i32)
    (block $done
      (loop $calls
        (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
        (local.set $sum (i32.add (local.get $sum)
          (call_indirect (type $area) (local.get $i) (call $pick (local.get $i)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $calls)))
    (local.get $sum)))
