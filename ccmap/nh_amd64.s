#include "textflag.h"

// Four frames at an offset, with their keys: first is the vector of keys of the first sum, which stands
// before the one of the second, next. It is the first one of the frames that follow.
#define ADD(offset, first, next) \
	VMOVDQU  offset(SI), Y2;        \
	VMOVDQU  (offset+32)(DI), next; \
	VPADDD   first, Y2, Y3;         \
	VPADDD   next, Y2, Y2;          \
	VPSRLQ   $32, Y3, Y5;           \
	VPSRLQ   $32, Y2, Y4;           \
	VPMULUDQ Y5, Y3, Y3;            \
	VPMULUDQ Y4, Y2, Y2;            \
	VPADDQ   Y3, Y0, Y0;            \
	VPADDQ   Y2, Y1, Y1

// func sums(keys *[520]uint64, frames []Frame) (hi, lo uint64)
TEXT ·sums(SB), NOSPLIT, $0-48
	MOVQ    keys+0(FP), DI
	MOVQ    frames_base+8(FP), SI
	MOVQ    frames_len+16(FP), CX
	LEAQ    -64(SI)(CX*8), DX
	VPXOR   Y0, Y0, Y0
	VPXOR   Y1, Y1, Y1
	VMOVDQU (DI), Y6
	CMPQ    SI, DX
	JAE     last

block:
	ADD(0, Y6, Y7)
	ADD(32, Y7, Y6)
	ADDQ $64, SI
	ADDQ $64, DI
	CMPQ SI, DX
	JB   block

last:
	MOVQ DX, SI
	ADD(0, Y6, Y7)
	ADD(32, Y7, Y6)

	VEXTRACTI128 $1, Y0, X2
	VEXTRACTI128 $1, Y1, X3
	VPADDQ       X2, X0, X0
	VPADDQ       X3, X1, X1
	VPSHUFD      $0x4E, X0, X2
	VPSHUFD      $0x4E, X1, X3
	VPADDQ       X2, X0, X0
	VPADDQ       X3, X1, X1
	VMOVQ        X0, hi+32(FP)
	VMOVQ        X1, lo+40(FP)
	VZEROUPPER
	RET
