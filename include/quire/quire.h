/*
 * quire: a Linux-style memory manager that a program can link.
 *
 * A manager owns real memory and gives out address spaces in it. A thread of the program attaches to the manager, switches to an address
 * space, maps and unmaps, and reads and writes through it; pages come when they are touched, are shared copy on write by a fork,
 * and are taken back by munmap or madvise, as Linux does it. What a call means, its flags and its errors are those of
 * the Linux call of the same name; errors are returned as negative errno values. Nothing here prints, exits or keeps global state.
 *
 * Threads. A quire_thread belongs to the thread that attached it and is used by no other. Different threads may use one address space
 * at the same time. Data that two of them access at once without synchronisation is torn as it would be in ordinary memory.
 * Every object belongs to one manager, and goes before it.
 *
 * This interface is young: it may change until version 1.
 */
#ifndef QUIRE_QUIRE_H
#define QUIRE_QUIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An address in an address space; never a pointer of the program. */
typedef uint64_t quire_addr_t;

struct quire_manager;
struct quire_thread;
struct quire_space;

/* ---- managers ---- */

struct quire_options {
	uint64_t memory;       /* bytes of real memory, a multiple of 128 MiB; 0: a quarter of the computer's, at most 2 GiB */
	unsigned max_threads;  /* attached at once; 0: 63 */
	const char *const *settings; /* "name=value" as `quire knobs` lists them, NULL-terminated; NULL: all defaults */
	int populate;          /* not 0: take the memory from the system now, not when it is first used */
};

/* options NULL: all defaults. 0; -EINVAL, -ENOMEM, -EOPNOTSUPP with one line of text in err (which may be NULL, errlen 0). */
int quire_open(const struct quire_options *options, struct quire_manager **ret, char *err, size_t errlen);
/* 0, or -EBUSY while threads are attached or address spaces exist. */
int quire_close(struct quire_manager *q);

/* A counter under Linux's vmstat name ("pgfault", "thp_fault_alloc", "nr_anon_pages", ...). 0 or -ENOENT. */
int quire_counter(const struct quire_manager *q, const char *name, int64_t *ret);

/* ---- threads ---- */

/* Attach the calling thread. 0; -EBUSY: as many as allowed are attached; -ENOMEM. */
int quire_attach(struct quire_manager *q, struct quire_thread **ret);
/* It is in no address space afterwards, and gone. */
void quire_detach(struct quire_thread *t);

/* ---- address spaces ---- */

/* An empty one, held by the caller. */
int quire_space_create(struct quire_thread *t, struct quire_space **ret);
/* A copy of space as fork makes it, held by the caller. */
int quire_space_fork(struct quire_thread *t, struct quire_space *space, struct quire_space **ret);
/* Let go of it. It ends when no thread is in it and nobody holds it. */
void quire_space_put(struct quire_thread *t, struct quire_space *space);
/* What t's calls below refer to from now on; NULL: nothing. */
void quire_space_switch(struct quire_thread *t, struct quire_space *space);

/* ---- memory of the current address space. No address space: -EFAULT. ---- */

#define QUIRE_PROT_NONE 0x0
#define QUIRE_PROT_READ 0x1
#define QUIRE_PROT_WRITE 0x2
#define QUIRE_PROT_EXEC 0x4

#define QUIRE_MAP_SHARED 0x01
#define QUIRE_MAP_PRIVATE 0x02
#define QUIRE_MAP_FIXED 0x10
#define QUIRE_MAP_NORESERVE 0x4000
#define QUIRE_MAP_POPULATE 0x8000
#define QUIRE_MAP_FIXED_NOREPLACE 0x100000

#define QUIRE_MREMAP_MAYMOVE 1
#define QUIRE_MREMAP_FIXED 2
#define QUIRE_MREMAP_DONTUNMAP 4

#define QUIRE_MADV_DONTNEED 4
#define QUIRE_MADV_FREE 8
#define QUIRE_MADV_DONTFORK 10
#define QUIRE_MADV_DOFORK 11
#define QUIRE_MADV_HUGEPAGE 14
#define QUIRE_MADV_NOHUGEPAGE 15
#define QUIRE_MADV_WIPEONFORK 18
#define QUIRE_MADV_KEEPONFORK 19
#define QUIRE_MADV_POPULATE_READ 22
#define QUIRE_MADV_POPULATE_WRITE 23

/* Anonymous memory. 0 with the address in *ret. */
int quire_mmap(struct quire_thread *t, quire_addr_t addr, uint64_t len, int prot, int flags, quire_addr_t *ret);
int quire_munmap(struct quire_thread *t, quire_addr_t addr, uint64_t len);
int quire_mprotect(struct quire_thread *t, quire_addr_t addr, uint64_t len, int prot);
int quire_mremap(struct quire_thread *t, quire_addr_t old_addr, uint64_t old_len, uint64_t new_len, int flags, quire_addr_t new_addr,
		 quire_addr_t *ret);
int quire_madvise(struct quire_thread *t, quire_addr_t addr, uint64_t len, int advice);
int quire_mlock(struct quire_thread *t, quire_addr_t addr, uint64_t len);
int quire_munlock(struct quire_thread *t, quire_addr_t addr, uint64_t len);
/* vec: one byte a page, bit 0: resident. */
int quire_mincore(struct quire_thread *t, quire_addr_t addr, uint64_t len, unsigned char *vec);

/* ---- access: -EFAULT where a program would get SIGSEGV, -ENOMEM where memory has run out ---- */

/* 1 to 8 bytes, little-endian. Aligned ones of 1, 2, 4 and 8 are indivisible. */
int quire_load(struct quire_thread *t, quire_addr_t addr, unsigned size, uint64_t *ret);
int quire_store(struct quire_thread *t, quire_addr_t addr, unsigned size, uint64_t value);
/* Buffers. On an error what lies before the bad address has been done; *ret_done (may be NULL) says how many bytes. */
int quire_read(struct quire_thread *t, quire_addr_t addr, void *buf, size_t len, size_t *ret_done);
int quire_write(struct quire_thread *t, quire_addr_t addr, const void *buf, size_t len, size_t *ret_done);

/* ---- pins: pointers to memory ---- */

#define QUIRE_PIN_WRITE 1 /* the memory will be written through the pointers */

/* A part of a pinned range that is contiguous in this process. */
struct quire_segment {
	void *ptr;
	size_t len;
};

struct quire_pin {
	size_t nr;
	struct quire_segment segments[]; /* in order; together the range */
};

/*
 * Bring [addr, addr + len) in and keep it where it is: the pointers stay valid, and show what the address space shows there, until
 * quire_unpin, whatever is mapped, unmapped or forked meanwhile. (What unmaps or discards the range leaves the pointers valid but detached:
 * memory that nothing else uses.) A child that is forked meanwhile gets copies of pinned pages at once. 0; -EFAULT, -EINVAL (len 0), -ENOMEM.
 */
int quire_pin(struct quire_thread *t, quire_addr_t addr, size_t len, int flags, struct quire_pin **ret);
void quire_unpin(struct quire_thread *t, struct quire_pin *pin);

#ifdef __cplusplus
}
#endif

#endif
