#include "textflag.h"

// func sumBlocks(b *byte, blocks int) uint64
//
// Each lane of 64 bits adds up words in two ways: all of each, in Y0 to Y3, which overflows,
// and the upper halves, in Y4 to Y7, which does not. From these follow the lower halves.
TEXT ·sumBlocks(SB), NOSPLIT, $0-24
	MOVQ b+0(FP), SI
	MOVQ blocks+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7

block:
	VMOVDQU (SI), Y8
	VMOVDQU 32(SI), Y9
	VMOVDQU 64(SI), Y10
	VMOVDQU 96(SI), Y11
	VPADDQ Y8, Y0, Y0
	VPADDQ Y9, Y1, Y1
	VPADDQ Y10, Y2, Y2
	VPADDQ Y11, Y3, Y3
	VPSRLQ $32, Y8, Y8
	VPSRLQ $32, Y9, Y9
	VPSRLQ $32, Y10, Y10
	VPSRLQ $32, Y11, Y11
	VPADDQ Y8, Y4, Y4
	VPADDQ Y9, Y5, Y5
	VPADDQ Y10, Y6, Y6
	VPADDQ Y11, Y7, Y7
	ADDQ $128, SI
	DECQ CX
	JNZ block

	VPADDQ Y1, Y0, Y0
	VPADDQ Y3, Y2, Y2
	VPADDQ Y2, Y0, Y0
	VPADDQ Y5, Y4, Y4
	VPADDQ Y7, Y6, Y6
	VPADDQ Y6, Y4, Y4

	// The lower halves are all less the upper ones, where these belong.
	VPSLLQ $32, Y4, Y1
	VPSUBQ Y1, Y0, Y0
	VPADDQ Y4, Y0, Y0

	VEXTRACTI128 $1, Y0, X1
	VPADDQ X1, X0, X0
	VPSRLDQ $8, X0, X1
	VPADDQ X1, X0, X0
	VMOVQ X0, AX
	VZEROUPPER
	MOVQ AX, ret+16(FP)
	RET
