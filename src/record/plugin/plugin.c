/*
 * The recorder's TCG plugin: loading, translation, and the two callbacks that run all the time.
 *
 * Instruction counts: each block announces its length when it begins, each reference knows its place in its block, so
 * what lies between two references of a stream is exact wherever blocks run to their end. A block that a fault or
 * signal leaves early counts to its end. Each round of a repeated string instruction counts as one instruction, as
 * the emulator executes it.
 */
#define _GNU_SOURCE
#include "record/plugin/plugin.h"

#include "record/plugin/qemu_plugin_api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int qemu_plugin_version = QEMU_PLUGIN_API_VERSION;

struct plugin_state own;
__thread struct ring *my_ring __attribute__((tls_model("initial-exec")));

/*
 * What the emulator's description of an access means, asked once for each of the few that occur. Racing threads write
 * the same value. The low four bits are a reference word's bits 62 to 59; KIND_PLAIN is set for single loads and
 * stores, and so tells the fast path from all else.
 */
#define KIND_BITS 18
#define KIND_MASK ((1U << KIND_BITS) - 1)
#define KIND_PLAIN 0x10U
#define KIND_RMW 0x20U
#define KIND_HELPER 0x40U
static uint8_t kinds[KIND_MASK + 1];

static unsigned kind_ask(qemu_plugin_meminfo_t info)
{
	unsigned kind = (qemu_plugin_mem_size_shift(info) & 7U) << 1 | qemu_plugin_mem_is_store(info);

	/*
	 * Two things that the interface has no question for, from how 7.2 packs the value: an atomic
	 * read-modify-write comes as one access (the enum qemu_plugin_mem_rw is above bit 16); what the emulator's
	 * own helpers access has an MMU index that is not 0 (bits 3 to 0).
	 */
	if ((info >> 16 & 3) == QEMU_PLUGIN_MEM_RW)
		kind |= KIND_RMW;
	if (info & 0xf)
		kind |= KIND_HELPER;
	if (!(kind & (KIND_RMW | KIND_HELPER)))
		kind |= KIND_PLAIN;
	kinds[info & KIND_MASK] = (uint8_t)kind;
	return kind;
}

static ATTR_ALWAYS_INLINE uint64_t make_ref(unsigned kind, uint64_t vaddr)
{
	return (uint64_t)(kind & 0xf) << (WORD_SIZE_SHIFT - 1) | vaddr;
}

/* Everything but the common case, which is a plain access with room for its word. */
static ATTR_NOINLINE void on_memory_slow(struct ring *r, qemu_plugin_meminfo_t info, uint64_t vaddr, uint64_t now)
{
	unsigned kind = kinds[info & KIND_MASK];
	uint64_t insns;

	if (!kind)
		kind = kind_ask(info);
	if (kind & KIND_HELPER) {
		/* Segment registers are loaded from tables that a real processor finds in the kernel's memory. */
		if (vaddr - own.tables_start < own.tables_len)
			return;
		/* Between blocks (a signal's frame) the place in the block is an old one. */
		now = MIN(now, r->insns_begin + r->insns_block);
	}
	now = MAX(now, r->insns_done);
	insns = now - r->insns_done;
	r->insns_done = now;
	vaddr &= WORD_ADDR_MASK;
	if (kind & KIND_RMW) {
		ring_ref_slow(r, make_ref(kind & ~1U, vaddr), insns);
		insns = 0;
	}
	ring_ref_slow(r, make_ref(kind, vaddr), insns);
}

/* vaddr has been accessed, so it is below 2^47. */
static void on_memory(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	struct ring *r = my_ring;
	unsigned kind = kinds[info & KIND_MASK];
	uint64_t now = r->insns_begin + (uintptr_t)data, insns = now - r->insns_done, head = r->head;

	(void)vcpu;
	if (unlikely(!(kind & KIND_PLAIN) || insns > WORD_INSNS_MAX || head >= r->limit)) {
		on_memory_slow(r, info, vaddr, now);
		return;
	}
	r->insns_done = now;
	ring_words(r)[head & r->mask] = make_ref(kind, vaddr) | insns << WORD_INSNS_SHIFT;
	__atomic_store_n(&r->head, head + 1, __ATOMIC_RELEASE);
}

/* Its slow path is behind a call so that the common one needs no stack. */
static ATTR_NOINLINE void first_block(unsigned vcpu, void *data)
{
	sys_thread_begin(vcpu);
	my_ring->insns_block = (uintptr_t)data;
}

static void on_block(unsigned vcpu, void *data)
{
	struct ring *r = my_ring;

	if (unlikely(!r)) {
		first_block(vcpu, data);
		return;
	}
	r->insns_begin += r->insns_block;
	r->insns_block = (uintptr_t)data;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (!own.base_known && n) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, 0);

		own.guest_base = (uintptr_t)qemu_plugin_insn_haddr(insn) - qemu_plugin_insn_vaddr(insn);
		own.base_known = true;
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)n);
	for (size_t i = 0; i < n; i++)
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_memory, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)(i + 1));
}

/* ---- loading ---- */

static int fail(struct ring_shared *s, const char *what, int e)
{
	if (s) {
		uint32_t no = 0;

		if (__atomic_compare_exchange_n(&s->has_error, &no, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			snprintf(s->error, sizeof(s->error), "%s%s%s", what, e ? ": " : "", e ? strerror(e) : "");
	} else {
		dprintf(STDERR_FILENO, "quire recorder: %s%s%s\n", what, e ? ": " : "", e ? strerror(e) : "");
	}
	return 1;
}

static struct ring_shared *map_shared(const char *path)
{
	struct ring_shared *s = NULL;
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && (size_t)st.st_size > sizeof(*s)) {
		s = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (s == MAP_FAILED)
			s = NULL;
	}
	close(fd);
	return s;
}

/* The image before this one is gone: its streams end here. The thread that called execve had ring `caller`. */
static void end_previous_image(struct ring_shared *s, unsigned caller)
{
	int32_t pid = getpid();

	for (unsigned i = 0; i < s->nr_rings; i++) {
		struct ring *r = ring_at(s, i);

		if (__atomic_load_n(&s->state[i], __ATOMIC_ACQUIRE) != RING_LIVE || r->pid != pid)
			continue;
		r->exit_how = i == caller ? EXIT_EXEC : EXIT_THREAD;
		r->exit_status = 0;
		r->exit_ticket = ring_ticket(s);
		__atomic_store_n(&s->state[i], RING_EXECED, __ATOMIC_RELEASE);
	}
}

/* Arguments: shm=PATH, and in an image that execve began ring=INDEX, ticket=N of the call. */
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_plugin_info *info, int argc, char **argv)
{
	const char *shm = NULL;
	long caller = -1;
	struct ring_shared *s;

	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "shm=", 4))
			shm = argv[i] + 4;
		else if (!strncmp(argv[i], "ring=", 5))
			caller = strtol(argv[i] + 5, NULL, 10);
		else if (!strncmp(argv[i], "ticket=", 7))
			own.first_ticket = strtoull(argv[i] + 7, NULL, 10);
	}
	if (!shm)
		return fail(NULL, "this plugin is started by quire, not by hand", 0);
	s = map_shared(shm);
	if (!s)
		return fail(NULL, "the recording that this program belongs to cannot be reached", errno);
	if (s->magic != RING_MAGIC || s->version != RING_VERSION)
		return fail(NULL, "quire and its plugin are of different versions", 0);
	if (info->system_emulation || strcmp(info->target_name, "x86_64") != 0)
		return fail(s, "only qemu-x86_64 can be used", 0);
	own.shared = s;
	own.first_how = THREAD_FIRST;
	own.first_parent = RING_NO_STREAM;
	if (caller >= 0 && caller < (long)s->nr_rings) {
		own.first_how = THREAD_EXEC;
		own.first_parent = ring_at(s, (unsigned)caller)->stream;
		end_previous_image(s, (unsigned)caller);
	}
	if (sys_setup() < 0)
		return fail(s, "pthread_atfork", errno);
	qemu_plugin_register_vcpu_init_cb(id, sys_vcpu_created);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_vcpu_syscall_cb(id, sys_enter);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, sys_return);
	return 0;
}
