;; Call-light: run(n, rounds) multiplies two n×n matrices of i32 (n <= 128), rounds times, and returns the product's trace.
(module
  (memory 4)
  (func $address (param $matrix i32) (param $row i32) (param $column i32) (param $n i32) (result i32)
    ;; a leaf without loops: matrix m starts at m * 64 KiB
    (i32.add
      (i32.shl (local.get $matrix) (i32.const 16))
      (i32.shl (i32.add (i32.mul (local.get $row) (local.get $n)) (local.get $column)) (i32.const 2))))
  (func $fill (param $n i32)
    (local $row i32) (local $column i32)
    (loop $rows
      (local.set $column (i32.const 0))
      (loop $columns
        (i32.store (call $address (i32.const 0) (local.get $row) (local.get $column) (local.get $n))
          (i32.add (local.get $row) (local.get $column)))
        (i32.store (call $address (i32.const 1) (local.get $row) (local.get $column) (local.get $n))
          (i32.sub (i32.shl (local.get $row) (i32.const 1)) (local.get $column)))
        (local.set $column (i32.add (local.get $column) (i32.const 1)))
        (br_if $columns (i32.lt_s (local.get $column) (local.get $n))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $rows (i32.lt_s (local.get $row) (local.get $n)))))
  (func $multiply (param $n i32)
    ;; a leaf with loops, three deep
    (local $row i32) (local $column i32) (local $k i32) (local $sum i32) (local $a i32) (local $b i32) (local $stride i32)
    (local.set $stride (i32.shl (local.get $n) (i32.const 2)))
    (loop $rows
      (local.set $column (i32.const 0))
      (loop $columns
        (local.set $k (i32.const 0))
        (local.set $sum (i32.const 0))
        (local.set $a (i32.mul (local.get $row) (local.get $stride)))
        (local.set $b (i32.add (i32.const 65536) (i32.shl (local.get $column) (i32.const 2))))
        (loop $products
          (local.set $sum (i32.add (local.get $sum)
            (i32.mul (i32.load (local.get $a)) (i32.load (local.get $b)))))
          (local.set $a (i32.add (local.get $a) (i32.const 4)))
          (local.set $b (i32.add (local.get $b) (local.get $stride)))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $products (i32.lt_s (local.get $k) (local.get $n))))
        (i32.store
          (i32.add (i32.const 131072)
            (i32.add (i32.mul (local.get $row) (local.get $stride)) (i32.shl (local.get $column) (i32.const 2))))
          (local.get $sum))
        (local.set $column (i32.add (local.get $column) (i32.const 1)))
        (br_if $columns (i32.lt_s (local.get $column) (local.get $n))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $rows (i32.lt_s (local.get $row) (local.get $n)))))
  (func $trace (param $n i32) (result i32)
    (local $i i32) (local $sum i32)
    (loop $diagonal
      (local.set $sum (i32.add (local.get $sum)
        (i32.load (call $address (i32.const 2) (local.get $i) (local.get $i) (local.get $n)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $diagonal (i32.lt_s (local.get $i) (local.get $n))))
    (local.get $sum))
  (func (export "run") (param $n i32) (param $rounds i32) (result i32)
    (call $fill (local.get $n))
    (loop $again
      (call $multiply (local.get $n))
      (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
      (br_if $again (i32.gt_s (local.get $rounds) (i32.const 0))))
    (call $trace (local.get $n))))
