/*
 * What the files of the plugin share.
 *
 *   plugin.c  loading, translation, the two hot callbacks     sys.c     system calls, clone and exit
 *   stream.c  rings: claiming, waiting for room, writing      sysbuf.c  which memory and file a system call used
 *   image.c   the areas of a fresh image                      exec.c    keeping an execve'd image under the recorder
 *
 * Statics hold the process's own state: there is one recorder in a process, loaded by the emulator, which gives
 * callbacks no context.
 */
#ifndef QUIRE_RECORD_PLUGIN_H
#define QUIRE_RECORD_PLUGIN_H

#include "base/compiler.h"
#include "record/ring.h"
#include "trace/word.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * Hidden: the emulator exports all its names, and one of them would silently take the place of an equal one here.
 */
#pragma GCC visibility push(hidden)

struct plugin_state {
	struct ring_shared *shared;
	uint64_t guest_base;      /* host address = guest address + this */
	bool base_known;
	bool image_described;     /* W_EXEC and its areas are written */
	uint64_t tables_start, tables_len; /* the emulator's descriptor tables, in guest memory but not the program's */
	uint32_t first_how;       /* THREAD_FIRST or THREAD_EXEC */
	uint64_t first_parent, first_ticket;
	/* Of the fork that is happening: the emulator holds its fork lock around it. */
	uint64_t fork_parent, fork_ticket, fork_flags, fork_nr;
	bool fork_threads;        /* other threads live in the parent */
	bool fragile;             /* this process was forked so: a new thread may end it (QEMU 7.2) */
	uint32_t live_threads;
};

extern struct plugin_state own;
/* The calling thread's ring; a pointer only, since the emulator leaves little room for thread-local storage of plugins. */
extern __thread struct ring *my_ring __attribute__((tls_model("initial-exec")));

/* stream.c */
struct ring *stream_open(enum thread_how how, uint64_t parent, uint64_t clone_ticket, uint64_t clone_flags);
void stream_close(struct ring *r, enum exit_how how, uint64_t status);
/* Room for n words in a row; written with ring_commit. */
uint64_t *ring_room(struct ring *r, unsigned n);
void ring_commit(struct ring *r, unsigned n);
void ring_put(struct ring *r, enum word_type type, uint64_t arg, const uint64_t *payload, unsigned n);
void ring_put_name(struct ring *r, const char *text);
/* Instructions up to the end of the block at hand go into the stream. */
void ring_flush_insns(struct ring *r);
void ring_ref_slow(struct ring *r, uint64_t ref, uint64_t insns);
void plugin_pause_us(unsigned us);
uint64_t plugin_now_ns(void);

/* image.c: first_ref is the first address that the image used (0: none so far). */
void image_describe(struct ring *r, uint64_t first_ref);

/* sys.c */
void sys_enter(uint64_t id, unsigned vcpu, int64_t nr, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,
	       uint64_t a6, uint64_t a7, uint64_t a8);
void sys_return(uint64_t id, unsigned vcpu, int64_t nr, int64_t ret);
void sys_vcpu_created(uint64_t id, unsigned vcpu);
void sys_thread_begin(unsigned vcpu);
int sys_setup(void);

/* sysbuf.c */
void sysbuf_put(struct ring *r, uint64_t nr, const uint64_t *a, int64_t ret);
/* Copy guest memory; false where there is none. */
bool guest_read(uint64_t addr, void *buf, size_t len);
bool guest_read_string(uint64_t addr, char *buf, size_t len);

/* exec.c: returns only if the image could not be replaced here; the caller then leaves the call to the emulator. */
void exec_substitute(struct ring *r, uint64_t path, uint64_t argv, uint64_t envp);

#pragma GCC visibility pop

#endif
