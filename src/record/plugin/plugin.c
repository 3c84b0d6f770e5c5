/*
 * The recorder's TCG plugin: loading, translation, and the two callbacks that run all the time.
 *
 * Instruction counts: each block announces its length when it begins, each reference knows its place in its block, so what lies between
 * two references of a stream is exact wherever blocks run to their end. A block that a fault or signal leaves early counts
 * to its end. Each round of a repeated string instruction counts as one instruction, as the emulator executes it.
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

struct plugin plugin;
__thread struct ring *my_ring __attribute__((tls_model("initial-exec")));

/*
 * What the emulator's description of an access means, asked once for each of the few that occur: KIND_KNOWN, KIND_RMW, KIND_STORE, log2 of the size.
 * Racing threads write the same value.
 */
#define KIND_BITS 18
#define KIND_KNOWN 0x80U
#define KIND_RMW 0x10U
#define KIND_STORE 0x08U
#define KIND_SIZE 0x07U
static uint8_t kinds[1U << KIND_BITS];

static ATTR_NOINLINE unsigned kind_ask(qemu_plugin_meminfo_t info)
{
	unsigned kind = KIND_KNOWN | (qemu_plugin_mem_size_shift(info) & KIND_SIZE);

	if (qemu_plugin_mem_is_store(info))
		kind |= KIND_STORE;
	/* An atomic read-modify-write comes as one access; the interface has no question for it, the enum sits above the operation. */
	if ((info >> 16 & 3) == QEMU_PLUGIN_MEM_RW)
		kind |= KIND_RMW;
	kinds[info & ((1U << KIND_BITS) - 1)] = (uint8_t)kind;
	return kind;
}

static ATTR_ALWAYS_INLINE void put_ref(struct ring *r, uint64_t ref, uint64_t insns)
{
	uint64_t head = r->head;

	if (unlikely(head >= r->limit || insns > WORD_INSNS_MAX)) {
		ring_ref_slow(r, ref, insns);
		return;
	}
	ring_words(r)[head & (plugin.shared->ring_words - 1)] = ref | insns << WORD_INSNS_SHIFT;
	__atomic_store_n(&r->head, head + 1, __ATOMIC_RELEASE);
}

static void on_memory(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	struct ring *r = my_ring;
	unsigned kind = kinds[info & ((1U << KIND_BITS) - 1)];
	uint64_t now, insns, ref;

	(void)vcpu;
	if (unlikely(!kind))
		kind = kind_ask(info);
	now = r->insns_begin + (uintptr_t)data;
	insns = now - r->insns_done;
	r->insns_done = now;
	ref = word_ref(vaddr, kind & KIND_SIZE, kind & KIND_STORE, 0);
	if (unlikely(kind & KIND_RMW)) {
		put_ref(r, ref & ~WORD_STORE, insns);
		insns = 0;
	}
	put_ref(r, ref, insns);
}

static void on_block(unsigned vcpu, void *data)
{
	struct ring *r = my_ring;

	if (unlikely(!r)) {
		sys_thread_begin(vcpu);
		r = my_ring;
	}
	r->insns_begin += r->insns_block;
	r->insns_block = (uintptr_t)data;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (!plugin.base_known && n) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, 0);

		plugin.guest_base = (uintptr_t)qemu_plugin_insn_haddr(insn) - qemu_plugin_insn_vaddr(insn);
		plugin.base_known = true;
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
			plugin.first_ticket = strtoull(argv[i] + 7, NULL, 10);
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
	plugin.shared = s;
	plugin.first_how = THREAD_FIRST;
	plugin.first_parent = RING_NO_STREAM;
	if (caller >= 0 && caller < (long)s->nr_rings) {
		plugin.first_how = THREAD_EXEC;
		plugin.first_parent = ring_at(s, (unsigned)caller)->stream;
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
