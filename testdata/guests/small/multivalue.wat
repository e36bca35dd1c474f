;; Several results: divmod(a, b) by an early return or by falling off the end, collatz(n) with a loop that takes and gives two values.
(module
  (func $divmod (export "divmod") (param $a i32) (param $b i32) (result i32 i32)
    (if (i32.eqz (local.get $b))
      (then (return (i32.const -1) (local.get $a))))
    (i32.div_u (local.get $a) (local.get $b))
    (i32.rem_u (local.get $a) (local.get $b)))
  (func $next (param $n i32) (result i32)
    (local $half i32) (local $odd i32)
    (call $divmod (local.get $n) (i32.const 2))
    local.set $odd
    local.set $half
    (select
      (i32.add (i32.mul (local.get $n) (i32.const 3)) (i32.const 1))
      (local.get $half)
      (local.get $odd)))
  (func (export "collatz") (param $n i32) (result i32 i32)
    ;; steps to 1, and the highest number on the way
    (local $steps i32) (local $highest i32)
    (local.get $n)
    (local.get $n)
    (loop $on (param i32 i32) (result i32 i32)
      local.set $highest
      local.set $n
      (if (i32.le_u (local.get $n) (i32.const 1))
        (then (return (local.get $steps) (local.get $highest))))
      (local.set $steps (i32.add (local.get $steps) (i32.const 1)))
      (local.tee $n (call $next (local.get $n)))
      (select (local.get $n) (local.get $highest) (i32.gt_u (local.get $n) (local.get $highest)))
      (br $on))))
