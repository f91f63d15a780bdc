#include "textflag.h"

// func sumBlocks(b *byte, blocks int) uint64
//
// Each lane of 64 bits adds up words in two ways: all of each, in X0 to X3, which overflows,
// and the upper halves, in X4 to X7, which does not. From these follow the lower halves.
TEXT ·sumBlocks(SB), NOSPLIT, $0-24
	MOVQ b+0(FP), SI
	MOVQ blocks+8(FP), CX
	PXOR X0, X0
	PXOR X1, X1
	PXOR X2, X2
	PXOR X3, X3
	PXOR X4, X4
	PXOR X5, X5
	PXOR X6, X6
	PXOR X7, X7

block:
	MOVOU (SI), X8
	MOVOU 16(SI), X9
	MOVOU 32(SI), X10
	MOVOU 48(SI), X11
	PADDQ X8, X0
	PADDQ X9, X1
	PADDQ X10, X2
	PADDQ X11, X3
	PSRLQ $32, X8
	PSRLQ $32, X9
	PSRLQ $32, X10
	PSRLQ $32, X11
	PADDQ X8, X4
	PADDQ X9, X5
	PADDQ X10, X6
	PADDQ X11, X7
	ADDQ $64, SI
	DECQ CX
	JNZ block

	PADDQ X1, X0
	PADDQ X3, X2
	PADDQ X2, X0
	PADDQ X5, X4
	PADDQ X7, X6
	PADDQ X6, X4

	// The lower halves are all less the upper ones, where these belong.
	MOVO X4, X1
	PSLLQ $32, X1
	PSUBQ X1, X0
	PADDQ X4, X0

	MOVO X0, X1
	PSRLO $8, X1
	PADDQ X1, X0
	MOVQ X0, AX
	MOVQ AX, ret+16(FP)
	RET
