#include "textflag.h"
#include "go_asm.h"

// func pext(v, mask uint64) uint64
TEXT ·pext(SB), NOSPLIT, $0-24
	MOVQ  v+0(FP), AX
	PEXTQ mask+8(FP), AX, AX
	MOVQ  AX, ret+16(FP)
	RET

// func hitPext(t *Table, v uint64) bool
TEXT ·hitPext(SB), NOSPLIT, $0-17
	MOVQ    t+0(FP), BX
	MOVQ    v+8(FP), AX
	PEXTQ   Table_key(BX), AX, CX
	MOVQ    Table_index(BX), DX
	MOVBLZX (DX)(CX*1), CX
	SHLQ    $4, CX
	ADDQ    Table_slots(BX), CX
	CMPQ    AX, Value_Value(CX)
	JNE     miss
	INCQ    Value_Count(CX)
	MOVB    $1, ret+16(FP)
	RET

miss:
	MOVB $0, ret+16(FP)
	RET
