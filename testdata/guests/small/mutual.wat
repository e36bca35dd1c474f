;; Mutual recursion: even(n) calls odd(n-1) calls even(n-2) ...; n+1 activations, n+1 deep.
(module
  (func $even (export "even") (param $n i32) (result i32)
    (if (result i32) (i32.eqz (local.get $n))
      (then (i32.const 1))
      (else (call $odd (i32.sub (local.get $n) (i32.const 1))))))
  (func $odd (export "odd") (param $n i32) (result i32)
    (if (result i32) (i32.eqz (local.get $n))
      (then (i32.const 0))
      (else (call $even (i32.sub (local.get $n) (i32.const 1)))))))
