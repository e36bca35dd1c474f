;; Recursion to the stack's limit: descend() never returns; the exported global "depth" counts its activations.
(module
  (global $depth (export "depth") (mut i32) (i32.const 0))
  (func $descend (param $level i32) (result i32)
    (global.set $depth (local.get $level))
    (i32.add (call $descend (i32.add (local.get $level) (i32.const 1))) (i32.const 1)))
  (func (export "descend") (result i32) (call $descend (i32.const 1))))
