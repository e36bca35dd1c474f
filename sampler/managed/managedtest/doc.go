// Package managedtest checks how a VM shows its stack to package managed.
//
// The author of a VM writes a small guest program in the VM's language, of two
// methods that do what a host function tells them to:
//
//	func A() {                  func B() {
//	    for {                       for {
//	        switch next() {             switch next() {
//	        case 0: return              case 0: return
//	        case 1: A()                 case 1: A()
//	        case 2: B()                 case 2: B()
//	        }                           }
//	    }                           }
//	}                           }
//
// and passes it to [Run] from a test of his own:
//
//	func TestWalker(t *testing.T) {
//		vm := newVM()
//		managedtest.Run(t, managedtest.VM{
//			Names: vm.names, A: "A", B: "B",
//			Run: func(next func(managed.Walker) managedtest.Op) error {
//				return vm.run(func() int { return int(next(vm.walker())) })
//			},
//		})
//	}
//
// The suite leads the program through calls, returns and recursion. It knows the
// stack at each call of next and takes samples there, with a profiler of its own.
package managedtest
