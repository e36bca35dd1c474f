#include "textflag.h"

// func spin(r14 uintptr)
TEXT ·spin(SB), NOSPLIT, $0-8
	MOVQ	r14+0(FP), R14
loop:
	PAUSE
	JMP	loop
