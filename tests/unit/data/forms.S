/*
 * DWARF 5 as clang and others may write it and GCC never does: addresses, strings and range lists
 * by index, every kind of range entry, and rare forms. What stands where is in test_dwarf_forms.py.
 */
	.text
	.globl _start
_start:
.Ltext:
	.fill 64, 1, 0x90
.Ltext_end:

	.section .debug_str, "MS", @progbits, 1
.Lstr_unit:	.string "forms.c"
.Lstr_leaf:	.string "leaf"

	.section .debug_str_offsets, "", @progbits
	.4byte .Lstr_offsets_end - .Lstr_offsets_version
.Lstr_offsets_version:
	.2byte 5, 0
.Lstr_offsets:
	.4byte .Lstr_unit, .Lstr_leaf
.Lstr_offsets_end:

	.section .debug_addr, "", @progbits
	.4byte .Laddr_end - .Laddr_version
.Laddr_version:
	.2byte 5
	.byte 8, 0
.Laddr:
	.8byte .Ltext, .Ltext + 16, .Ltext + 32, .Ltext + 40
.Laddr_end:

	.section .debug_rnglists, "", @progbits
	.4byte .Lrng_end - .Lrng_version
.Lrng_version:
	.2byte 5
	.byte 8, 0
	.4byte 3				/* lists in the table */
.Lrng:
	.4byte .Lrng0 - .Lrng, .Lrng1 - .Lrng, .Lrng2 - .Lrng
.Lrng0:
	.byte 1; .uleb128 1			/* base_addressx: text + 16 */
	.byte 4; .uleb128 0; .uleb128 8		/* offset_pair: 16 to 24 */
	.byte 2; .uleb128 2; .uleb128 3		/* startx_endx: 32 to 40 */
	.byte 0
.Lrng1:
	.byte 3; .uleb128 2; .uleb128 4		/* startx_length: 32 to 36 */
	.byte 0
.Lrng2:
	.byte 5; .8byte .Ltext + 40		/* base_address */
	.byte 4; .uleb128 2; .uleb128 4		/* offset_pair: 42 to 44 */
	.byte 4; .uleb128 5; .uleb128 5		/* empty */
	.byte 6; .8byte .Ltext + 44, .Ltext + 45	/* start_end */
	.byte 7; .8byte .Ltext + 46; .uleb128 1	/* start_length */
	.byte 0
.Lrng_end:

	.section .debug_abbrev, "", @progbits
	.uleb128 300; .uleb128 0x11; .byte 1	/* compile unit; a code of two bytes */
	.uleb128 0x03; .uleb128 0x25		/* name: strx1 */
	.uleb128 0x13; .uleb128 0x21; .sleb128 0x1d	/* language: implicit_const, C11 */
	.uleb128 0x11; .uleb128 0x1b		/* low_pc: addrx */
	.uleb128 0x12; .uleb128 0x06		/* high_pc: data4 */
	.uleb128 0x72; .uleb128 0x17		/* str_offsets_base: sec_offset */
	.uleb128 0x73; .uleb128 0x17		/* addr_base: sec_offset */
	.uleb128 0x74; .uleb128 0x17		/* rnglists_base: sec_offset */
	.uleb128 0; .uleb128 0
	.uleb128 2; .uleb128 0x2e; .byte 0	/* subprogram, described only */
	.uleb128 0x03; .uleb128 0x1a		/* name: strx */
	.uleb128 0x1c; .uleb128 0x0a		/* const_value: block1 */
	.uleb128 0x1c; .uleb128 0x03		/* const_value: block2 */
	.uleb128 0x1c; .uleb128 0x04		/* const_value: block4 */
	.uleb128 0x1c; .uleb128 0x0d		/* const_value: sdata */
	.uleb128 0x1c; .uleb128 0x1e		/* const_value: data16 */
	.uleb128 0; .uleb128 0
	.uleb128 3; .uleb128 0x2e; .byte 0	/* subprogram, described only */
	.uleb128 0x03; .uleb128 0x08		/* name: string */
	.uleb128 0x40; .uleb128 0x18		/* frame_base: exprloc */
	.uleb128 0; .uleb128 0
	.uleb128 4; .uleb128 0x2e; .byte 1	/* subprogram */
	.uleb128 0x03; .uleb128 0x16		/* name: indirect */
	.uleb128 0x11; .uleb128 0x29		/* low_pc: addrx1 */
	.uleb128 0x12; .uleb128 0x0f		/* high_pc: udata */
	.uleb128 0; .uleb128 0
	.uleb128 5; .uleb128 0x1d; .byte 1	/* inlined subroutine */
	.uleb128 0x31; .uleb128 0x15		/* abstract_origin: ref_udata */
	.uleb128 0x55; .uleb128 0x23		/* ranges: rnglistx */
	.uleb128 0x52; .uleb128 0x0b		/* entry_pc: data1, an offset */
	.uleb128 0; .uleb128 0
	.uleb128 6; .uleb128 0x1d; .byte 0	/* inlined subroutine */
	.uleb128 0x31; .uleb128 0x10		/* abstract_origin: ref_addr */
	.uleb128 0x55; .uleb128 0x23		/* ranges: rnglistx */
	.uleb128 0; .uleb128 0
	.uleb128 7; .uleb128 0x34; .byte 0	/* variable, stepped over */
	.uleb128 0x02; .uleb128 0x18		/* location: exprloc */
	.uleb128 0x1c; .uleb128 0x16		/* const_value: indirect */
	.uleb128 0; .uleb128 0
	.byte 0

	.section .debug_info, "", @progbits
.Linfo:
	.4byte .Linfo_end - .Linfo_version
.Linfo_version:
	.2byte 5
	.byte 1, 8
	.4byte 0				/* abbreviations */
	.uleb128 300
	.byte 0					/* name */
	.uleb128 0				/* low_pc */
	.4byte 64				/* high_pc */
	.4byte .Lstr_offsets, .Laddr, .Lrng
.Lleaf:
	.uleb128 2
	.uleb128 1				/* name */
	.byte 2, 0xff, 0xff
	.2byte 1; .byte 0xff
	.4byte 1; .byte 0xff
	.sleb128 -70000
	.8byte 1, 2
.Lmiddle:
	.uleb128 3
	.string "middle"
	.uleb128 1; .byte 0x9c			/* frame_base */
	.uleb128 4
	.uleb128 0x08; .string "host"		/* name */
	.byte 1					/* low_pc: text + 16 */
	.uleb128 40				/* high_pc: text + 56 */
	.uleb128 7
	.uleb128 2; .byte 0x91, 0x7f		/* location */
	.uleb128 0x06; .4byte 7			/* const_value: data4 */
	.uleb128 5
	.uleb128 .Lmiddle - .Linfo
	.uleb128 0
	.byte 3					/* entry_pc: text + 19 */
	.uleb128 6
	.4byte .Lleaf
	.uleb128 1
	.byte 0					/* end of the inlined subroutine's children */
	.uleb128 6
	.4byte .Lleaf
	.uleb128 2
	.byte 0
	.byte 0
.Linfo_end:
