/*
 * The access stream as a sequence of 64-bit words: what the recorder writes into its rings, what a decoded trace block
 * holds, and what replay consumes. Freestanding; shared with the recorder plugin. docs/trace-format.md describes it.
 *
 * bit 63 = 0: one reference
 *     62..60  log2 of the size in bytes (0..6)
 *     59      1: store, 0: load
 *     58..47  instructions executed since the previous word of this stream that carries instructions, this one's own included
 *             (saturating at 4095: the rest goes into a W_INSNS word before it)
 *     46..0   virtual address as recorded
 *     A read-modify-write is a load and a store; the store of an atomic one carries 0 instructions. Each round of a repeated string
 *     instruction counts as one instruction. What is left early by a fault or signal counts to the end of its block of code.
 * bit 63 = 1: control word
 *     62..56  type (enum word_type)
 *     55..48  n, payload words that follow (a payload word is plain data, whatever its bit 63)
 *     47..0   argument
 */
#ifndef QUIRE_TRACE_WORD_H
#define QUIRE_TRACE_WORD_H

#include <stdint.h>

#define WORD_CONTROL (1ULL << 63)
#define WORD_ADDR_MASK ((1ULL << 47) - 1)
#define WORD_INSNS_SHIFT 47
#define WORD_INSNS_MAX 4095ULL
#define WORD_STORE (1ULL << 59)
#define WORD_SIZE_SHIFT 60
#define WORD_ARG_MASK ((1ULL << 48) - 1)

/*
 * Order. Every W_SYSCALL and every W_SYSRET, W_THREAD and W_EXIT carries a ticket: a number drawn from one counter that all threads
 * and processes of a recording share, so tickets give one total order of these points as they happened.
 */
enum word_type {
	W_NOP = 0,
	/* arg: instructions executed without a reference. */
	W_INSNS = 1,
	/*
	 * First word of a stream. arg: stream number. payload: ticket, pid (guest), tid (guest), parent stream (~0: none),
	 * ticket of the parent's clone call (0: none), clone flags, how (enum thread_how).
	 * An image that execve began is a stream of its own, THREAD_EXEC: parent is the stream that made the call, the ticket is the
	 * call's W_SYSCALL's, and W_EXEC follows. The old streams of the process end: EXIT_EXEC the caller's, EXIT_THREAD the others.
	 */
	W_THREAD = 2,
	/* Entry of a system call. arg: number (x86-64). payload: ticket, a0..a5, monotonic time in ns. */
	W_SYSCALL = 3,
	/*
	 * Its return. arg: number. payload: ticket, return value, monotonic time in ns, thread CPU time in ns. There is none for a
	 * call that did not return (exit, exit_group, execve that succeeded, death) nor in a forked child. Return values of the
	 * emulator's own: -512, a signal came and the call is made again; -513, rt_sigreturn.
	 */
	W_SYSRET = 4,
	/*
	 * The kernel read (arg bit 0 = 0) or wrote (bit 0 = 1) user memory during the call between the last W_SYSCALL and the W_SYSRET
	 * to come or just given: payload: address, length. Written before the W_SYSRET.
	 */
	W_BUFFER = 5,
	/*
	 * Which file a call used (mmap, read, write, ...). payload: device, inode, size in bytes, file offset (~0: n/a), enum file_kind.
	 * Before the W_SYSRET. For shmat: device ~0, the segment's identifier as inode, its size.
	 */
	W_FILE = 6,
	/*
	 * An area of a fresh address space (after exec). arg: enum area_kind. payload: start, length, PROT_* bits, device, inode, file offset,
	 * file size (0: anonymous). All W_AREA of an image come right after its W_EXEC and W_NAME. No AREA_HEAP: W_EXEC has the break.
	 */
	W_AREA = 7,
	/* This stream's process executes a new image. payload: ticket, initial break, stack pointer, then W_NAME with the path. */
	W_EXEC = 8,
	/* Text. arg: bytes. payload: ceil(bytes / 8) words, little-endian, zero-padded. n at most 255. */
	W_NAME = 9,
	/*
	 * The thread ends. arg: enum exit_how. payload: ticket, status or signal. Last word of a stream. When a process ends, all its
	 * streams end so: EXIT_PROCESS, EXIT_SIGNAL, or EXIT_UNKNOWN where nobody could see how.
	 */
	W_EXIT = 10,
	/* Something was lost or could not be recorded. payload: a count. */
	W_LOST = 11,
	NR_WORD_TYPES
};

enum thread_how { THREAD_FIRST, THREAD_CLONE, THREAD_FORK, THREAD_VFORK, THREAD_EXEC };
enum exit_how { EXIT_THREAD, EXIT_PROCESS, EXIT_SIGNAL, EXIT_EXEC, EXIT_UNKNOWN };
enum file_kind { FILE_REGULAR, FILE_SHM, FILE_DEVICE, FILE_PIPE, FILE_SOCKET, FILE_OTHER };
enum area_kind { AREA_EXE, AREA_INTERP, AREA_STACK, AREA_HEAP, AREA_VDSO, AREA_ANON, AREA_FILE };

static inline uint64_t word_ref(uint64_t addr, unsigned log2_size, int store, uint64_t insns)
{
	return ((uint64_t)log2_size << WORD_SIZE_SHIFT) | (store ? WORD_STORE : 0) | (insns << WORD_INSNS_SHIFT) |
	       (addr & WORD_ADDR_MASK);
}

static inline uint64_t word_control(enum word_type type, unsigned n, uint64_t arg)
{
	return WORD_CONTROL | ((uint64_t)type << 56) | ((uint64_t)n << 48) | (arg & WORD_ARG_MASK);
}

static inline unsigned word_type(uint64_t w)
{
	return (unsigned)(w >> 56) & 0x7f;
}

static inline unsigned word_payload(uint64_t w)
{
	return (unsigned)(w >> 48) & 0xff;
}

static inline uint64_t word_arg(uint64_t w)
{
	return w & WORD_ARG_MASK;
}

static inline uint64_t word_addr(uint64_t w)
{
	return w & WORD_ADDR_MASK;
}

static inline unsigned word_insns(uint64_t w)
{
	return (unsigned)(w >> WORD_INSNS_SHIFT) & 0xfff;
}

static inline unsigned word_size(uint64_t w)
{
	return 1U << ((w >> WORD_SIZE_SHIFT) & 7);
}

#endif
