;; Exits by branches to the outermost label: classify(n) by br_table from inside loops, search(n) by br_if and br with a value; visits() counts activations.
(module
  (global $visits (mut i32) (i32.const 0))
  (func $visit (global.set $visits (i32.add (global.get $visits) (i32.const 1))))
  (func (export "visits") (result i32) (global.get $visits))
  (func $classify (export "classify") (param $n i32) (result i32)
    ;; 10, 20 for n = 0, 1; 30 for 2 by the function's own label; 40 for any other
    (call $visit)
    (i32.const 30)
    (block $other (param i32) (result i32)
      (block $one (param i32) (result i32)
        (block $zero (param i32) (result i32)
          (loop (param i32) (result i32)
            (br_table $zero $one 4 $other (local.get $n))))
        drop
        (return (i32.const 10)))
      drop
      (br 1 (i32.const 20)))
    drop
    (i32.const 40))
  (func (export "search") (param $n i32) (result i32)
    ;; the least square that is not below n
    (local $i i32)
    (call $visit)
    (loop $on (result i32)
      (i32.mul (local.get $i) (local.get $i))
      (br_if 1 (i32.ge_u (i32.mul (local.get $i) (local.get $i)) (local.get $n)))
      drop
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $on)))
  (func (export "classify_all") (param $rounds i32) (result i32)
    (local $sum i32)
    (loop $again
      (local.set $sum (i32.add (local.get $sum)
        (call $classify (i32.and (local.get $rounds) (i32.const 3)))))
      (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
      (br_if $again (i32.gt_s (local.get $rounds) (i32.const 0))))
    (local.get $sum)))
