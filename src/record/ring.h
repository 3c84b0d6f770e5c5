/*
 * Shared memory between a recording (the drain, in the quire process) and the plugin in each emulated process.
 *
 * One unnamed memory file holds struct ring_shared and nr_rings rings. Every recorded process maps all of it when the
 * plugin is loaded and keeps no descriptor, since programs close what they don't know. A thread owns one ring from
 * its first reference to its end; then the drain empties the ring and gives it free for the next thread. Stream
 * numbers are never reused.
 *
 * R1  ring_state[i]: FREE -> CLAIMED -> LIVE -> ENDED or EXECED by plugins, any -> FREE by the drain only, when the ring is empty.
 * R2  head counts words since the thread began and is written by the owner only, after the words below it: [tail, head) can be
 *     read at any time, even after the owner was killed, and always ends at a whole control word.
 * R3  No control word crosses a chunk (the owner pads with W_NOP), so a chunk's end is always a place to cut.
 * R4  The owner writes into a chunk only when tail shows that the drain has left it.
 * R5  A child's stream is LIVE before its parent's W_SYSRET of the clone is written, unless the child did not run for a second.
 */
#ifndef QUIRE_RECORD_RING_H
#define QUIRE_RECORD_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC 0x31474e4952515551ULL
#define RING_VERSION 1
#define RING_MAX 1024
#define RING_HEADER_BYTES 4096
#define RING_ANNOUNCE 4096
#define RING_PATH_MAX 512
#define RING_NO_STREAM (~0ULL)

enum ring_state { RING_FREE, RING_CLAIMED, RING_LIVE, RING_ENDED, RING_EXECED };

struct ring {
	/* The owner's, read by the drain. */
	_Alignas(64) uint64_t head; /* R2 */
	uint64_t limit;             /* the fast path stops here */
	uint64_t insns_begin;       /* instructions executed before the block at hand */
	uint64_t insns_block;       /* instructions in the block at hand */
	uint64_t insns_done;        /* of all, what the stream has accounted for */
	uint64_t mask;              /* ring_words - 1 */
	uint64_t chunk_end;         /* words below this index may be written (R4) */
	uint64_t control;           /* words that are no references */
	/* The drain's. */
	_Alignas(64) uint64_t tail;
	/* Set once by the owner, before LIVE. */
	_Alignas(64) uint64_t stream;
	int32_t pid, tid;
	uint64_t parent, clone_ticket, clone_flags;
	uint32_t how, index;
	/* The owner's: its open system call, and how it ended. */
	_Alignas(64) uint64_t sys_nr;
	uint64_t sys_args[6];
	uint64_t sys_ticket;
	uint32_t sys_open;
	uint32_t discard;           /* nobody reads it */
	uint32_t exit_how;
	uint64_t exit_status;
	uint64_t exit_ticket;       /* of a stream that its successor ended (EXECED) */
	uint64_t syscalls;
	uint64_t doomed_ns;         /* in a clone call that QEMU 7.2 may not survive, since then; 0: no */
	uint64_t unrecorded_ns;     /* in an execve that leaves the recorder, since then; 0: no */
};

struct ring_shared {
	uint64_t magic;
	uint32_t version, nr_rings;
	uint64_t ring_words, chunk_words; /* powers of two */
	uint64_t first, stride, bytes;    /* of ring 0, between rings, of all */
	int32_t drain_pid;
	char path[64];                    /* where an execve'd image opens this memory again */
	char qemu[RING_PATH_MAX], plugin[RING_PATH_MAX];
	_Alignas(64) uint64_t ticket;     /* the last one that was drawn */
	_Alignas(64) uint32_t next_stream;
	uint32_t off;                     /* nobody reads any more: throw words away */
	uint32_t lost_threads;            /* ran unrecorded for want of a ring */
	uint32_t unrecorded;              /* images that could not be run under the recorder */
	uint32_t has_error;
	char error[256];                  /* the first plugin that could not start says why */
	_Alignas(64) uint32_t state[RING_MAX];
	uint64_t announced[RING_ANNOUNCE]; /* by clone ticket: the child is LIVE (R5) */
};

static inline struct ring *ring_at(struct ring_shared *s, unsigned i)
{
	return (struct ring *)(void *)((char *)s + s->first + (uint64_t)i * s->stride);
}

static inline uint64_t *ring_words(struct ring *r)
{
	return (uint64_t *)(void *)((char *)r + RING_HEADER_BYTES);
}

static inline uint64_t ring_ticket(struct ring_shared *s)
{
	return __atomic_add_fetch(&s->ticket, 1, __ATOMIC_SEQ_CST);
}

_Static_assert(sizeof(struct ring) <= RING_HEADER_BYTES, "the words begin one page behind the header");

#endif
