/*
 * What the files of replay share.
 *
 *   replay.c  streams as tasks, the loop over words, results     replay_proc.c  processes, images, areas of a fresh image
 *   reloc.c   recorded address -> address here                   replay_sys.c   system calls
 *   order.c   who must wait for whom
 * All state hangs off struct replay; it is used from the model's single host thread only, so there are no locks.
 */
#ifndef QUIRE_WORKLOAD_REPLAY_INT_H
#define QUIRE_WORKLOAD_REPLAY_INT_H

#include "base/assert.h"
#include "machine/model/model.h"
#include "mm/tlb.h"
#include "trace/word.h"
#include "workload/replay.h"

/* ---- reloc.c: ordered, disjoint ranges of recorded addresses ---- */
struct reloc_range {
	uint64_t start, end, delta; /* recorded [start, end) is at address + delta here */
};

struct reloc {
	struct reloc_range *r;
	size_t nr, cap;
	uint64_t gen; /* raised at every change: cached windows of an older generation are void */
};

int reloc_set(struct reloc *m, uint64_t start, uint64_t len, uint64_t here);
int reloc_remove(struct reloc *m, uint64_t start, uint64_t len);
const struct reloc_range *reloc_find(const struct reloc *m, uint64_t addr);
int reloc_copy(struct reloc *to, const struct reloc *from);
void reloc_done(struct reloc *m);
/* The next piece of [*addr, end) that is mapped: here-address and length; advances *addr. false: none is left. */
bool reloc_next_piece(const struct reloc *m, uint64_t *addr, uint64_t end, uint64_t *ret_here, uint64_t *ret_len);

/* ---- processes ---- */
struct process {
	struct list_head link;
	int refs; /* threads, and a vfork child while it borrows */
	struct mm *mm;
	bool first; /* the process that was recorded, not one that it forked */
	struct reloc map;
	uint64_t pid;
	uint64_t rec_brk_start, rec_brk; /* recorded break */
	uint64_t brk_start;              /* here */
	bool brk_failed;                 /* the last brk was refused by the emulator: the next anonymous mmap stands for it */
	uint64_t id;                     /* unique, for keys */
	uint64_t exe_delta, interp_delta; /* a fresh image: here - recorded, for all segments of the object */
};

struct replay_stream;

/* ---- order.c ---- */
enum order_kind { ORDER_FUTEX, ORDER_PIPE, ORDER_EXIT, ORDER_MM, ORDER_AREA, ORDER_TICKET, ORDER_VFORK };

struct order_key {
	enum order_kind kind;
	uint64_t a, b;
};

struct order_event {
	struct order_key key;
	uint64_t ticket; /* highest entry ticket of an event on this key so far */
};

struct order {
	struct order_event *ev; /* open hash */
	size_t cap, used;
	struct list_head waiters;
};

struct pending_call {
	bool open;
	unsigned nr;
	uint64_t ticket, a[6], time_ns;
	bool has_file;
	uint64_t file_dev, file_ino, file_size, file_off;
	unsigned file_kind;
};

/* A stretch of work without system calls, long enough that others may have waited for it: after one ticket, before another. */
struct work_stretch {
	uint64_t after, before;
};

#define WORK_STRETCHES 16
#define WORK_STRETCH_REFS 20000U

struct replay_stream {
	struct list_head link;
	struct replay *rp;
	struct task task;
	struct process *proc;
	uint32_t nr; /* stream number in the recording */
	uint64_t tid, pid;
	uint64_t parent, clone_ticket, clone_flags;
	enum thread_how how;
	uint64_t cleartid; /* recorded address that is cleared and woken when the thread ends; 0 none */
	struct replay_stream *vfork_parent; /* waits until we exec or exit */
	uint64_t passed;   /* highest ticket passed */
	uint64_t next;     /* next ticket in the block at hand, 0: none in the rest of it */
	struct work_stretch work[WORK_STRETCHES]; /* the latest, in a ring */
	unsigned nr_work;
	uint64_t last_proc;  /* id of the process that it belonged to, when it has ended */
	uint64_t refs_since; /* references since `passed` */
	/* words at hand */
	struct trace_block block;
	size_t pos;
	bool have_block, started, ended;
	struct pending_call call;
	struct replay_windows win;
	uint64_t win_gen;
	uint64_t cpu_before_ps;
	/* waiting, order.c */
	struct list_head wait_link;
	bool waiting, released, thinking;
	struct order_key wait_key;
	uint64_t wait_from, wait_until; /* tickets */
};

struct replay_file {
	uint64_t dev, ino;
	struct mfile *file;
};

struct replay {
	struct quire *q;
	struct machine *m;
	struct trace_source *src;
	struct trace_cursor *cur;
	const struct replay_options *o;
	struct replay_result *res;
	struct list_head streams; /* known: started or pending */
	struct list_head processes;
	uint32_t next_unseen;     /* first stream number that has not been looked at */
	uint64_t next_proc_id;
	uint64_t live;            /* started and not ended */
	uint64_t order_waiting;   /* of those, waiting in order.c */
	uint64_t sleeping;        /* of those, in think time */
	uint64_t refs_reported;
	uint64_t first_time_ns, last_time_ns;
	struct order order;
	struct replay_file *files;
	size_t nr_files, cap_files;
	int error;                /* first fatal error */
	char *err;
	size_t errlen;
};

int order_init(struct order *o);
void order_done(struct order *o);
/* An event on key happened at (entry) ticket: wakes whom it concerns. */
void order_event(struct cpu *c, struct replay *rp, struct order_key key, uint64_t ticket);
/*
 * Wait until an event on key with a ticket above `from` has been replayed, or it is certain that none below `until` can
 * come any more. Returns at once when that is already so. Like the other waits: a user boundary; returns the CPU that s is then on.
 */
struct cpu *order_wait(struct cpu *c, struct replay_stream *s, struct order_key key, uint64_t from, uint64_t until);
/* Wait until every other thread of s's process has passed its known tickets below `ticket`. */
struct cpu *order_wait_process(struct cpu *c, struct replay_stream *s, uint64_t ticket);
/* Wait until the recorded address has a place here, or no other thread of s's process can give it one before s's next ticket. */
struct cpu *order_wait_area(struct cpu *c, struct replay_stream *s, uint64_t addr);
/*
 * Was another thread of s's process at work, as opposed to waiting, when s waited between the two tickets: now, or, when it is ahead
 * of s here, in the recording?
 */
bool order_others_at_work(const struct replay_stream *s, uint64_t from, uint64_t until);
/* s has passed a ticket, loaded a block or ended: waiters may be able to go on. */
void order_progress(struct cpu *c, struct replay *rp);

/* ---- replay_proc.c ---- */
struct process *process_new(struct cpu *c, struct replay *rp, struct mm *mm, uint64_t pid);
void process_put(struct cpu *c, struct replay *rp, struct process *p);
/* words: a W_EXEC with all its W_AREA and W_NAME words. Gives s a fresh process image; the old one is gone afterwards. */
int replay_exec(struct cpu *c, struct replay_stream *s, const uint64_t *words, size_t nr);
int replay_area(struct cpu *c, struct replay_stream *s, uint64_t w, const uint64_t *pay);
/* The file with this identity, one reference for the caller. NULL: out of memory. */
struct mfile *replay_file(struct cpu *c, struct replay *rp, uint64_t dev, uint64_t ino, uint64_t size, bool shmem);
void replay_account_memory(struct replay *rp);

/* ---- replay_sys.c ---- */
void replay_syscall_enter(struct cpu *c, struct replay_stream *s);
struct cpu *replay_syscall_exit(struct cpu *c, struct replay_stream *s, uint64_t ticket, int64_t ret, uint64_t time_ns);
void replay_buffer(struct cpu *c, struct replay_stream *s, bool write, uint64_t addr, uint64_t len);

/* ---- replay.c ---- */
struct replay_stream *replay_find_child(struct replay *rp, uint32_t parent, uint64_t clone_ticket, bool exec);
int replay_start(struct cpu *c, struct replay_stream *s);
struct cpu *replay_think(struct cpu *c, struct replay_stream *s, uint64_t ns);
void replay_fail(struct replay *rp, int error, const char *fmt, ...) ATTR_PRINTF(3, 4);

#endif
