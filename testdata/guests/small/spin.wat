;; An infinite loop, one call below the export "spin"; ends only with the context (wazero's WithCloseOnContextDone).
(module
  (func $forever
    (loop $again (br $again)))
  (func (export "spin") (call $forever)))
