/* Agents, their side: processes that do what their slot of the shared memory says. See kernel_agent.h. */
#define _GNU_SOURCE
#include "script/kernel_agent_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"
#include "script/kernel_proc.h"

#define TOP_ALIGN (1ULL << 30)
#define GUARD_MAX 512
#define CPU_SECONDS 60
#define LARGE (8ULL << 20)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

struct range {
	uint64_t start, end;
};

long kagent_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static struct shared *shared;
static pid_t caller;
static sigjmp_buf on_fault;
static volatile sig_atomic_t fault_signal;
static uint8_t fault_stack[1 << 14];

static void agent_fault(int sig)
{
	fault_signal = sig;
	siglongjmp(on_fault, 1);
}

static void agent_signals(void)
{
	struct sigaction sa = { .sa_handler = agent_fault, .sa_flags = SA_ONSTACK | SA_NODEFER };
	stack_t st = { .ss_sp = fault_stack, .ss_size = sizeof(fault_stack) };
	static const int plain[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD };

	sigaltstack(&st, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		signal(plain[i], SIG_DFL);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

/* One access at va. Apart, so that nothing of it lives in registers across the jump. */
__attribute__((noinline, no_sanitize("address", "undefined", "thread"))) static uint64_t agent_touch(enum kagent_access how, uint64_t va,
												    uint64_t value)
{
	volatile uint64_t *p = (volatile uint64_t *)(uintptr_t)va;
	volatile uint8_t *byte = (volatile uint8_t *)(uintptr_t)va;

	switch (how) {
	case KAGENT_LOAD:
		return *p;
	case KAGENT_STORE:
		*p = value;
		return 0;
	case KAGENT_TOUCH_READ:
		return *byte;
	default:
		/* A read and then a write would be two faults. */
		(void)__atomic_fetch_or(byte, 0, __ATOMIC_RELAXED);
		return 0;
	}
}

__attribute__((noinline)) static void agent_access(struct slot *s)
{
	volatile uint64_t i = 0;

	fault_signal = 0;
	if (!sigsetjmp(on_fault, 0))
		for (; i < s->a[3]; i = i + 1)
			s->value = agent_touch((enum kagent_access)s->a[0], s->a[1] + i * s->a[2], s->a[4] + i);
	s->nr_done = i;
	s->signal = (int32_t)fault_signal;
}

static void agent_answer(struct slot *s)
{
	__atomic_store_n(&s->done, __atomic_load_n(&s->asked, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	kagent_futex(&s->done, FUTEX_WAKE, 1, NULL);
}

/* The child goes on as the agent of another slot. */
static struct slot *agent_fork(struct slot *s)
{
	struct slot *child = &shared->slot[s->a[0]];
	pid_t pid = fork();

	if (!pid) {
		child->pid = (int32_t)getpid();
		return child;
	}
	s->result = pid < 0 ? -errno : pid;
	return s;
}

static struct slot *agent_obey(struct slot *s)
{
	long r;

	switch ((enum order)s->order) {
	case ORDER_SYSCALL:
		r = syscall((long)s->a[6], s->a[0], s->a[1], s->a[2], s->a[3], s->a[4], s->a[5]);
		s->result = r == -1 ? -errno : r;
		break;
	case ORDER_ACCESS:
		agent_access(s);
		break;
	case ORDER_FORK:
		s = agent_fork(s);
		break;
	case ORDER_EXIT:
		_exit(0);
	case ORDER_REAP:
		/* By syscall(), which every agent has called before: waitpid's own first call would fault in its code and its link. */
		s->result = syscall(SYS_wait4, (pid_t)s->a[0], NULL, 0, NULL) < 0 ? -errno : 0;
		break;
	}
	return s;
}

__attribute__((noreturn)) static void agent_loop(struct slot *s)
{
	static const struct timespec second = { .tv_sec = 1 };
	uint32_t last = s->done;

	for (;;) {
		while (__atomic_load_n(&s->asked, __ATOMIC_ACQUIRE) == last) {
			kagent_futex(&s->asked, FUTEX_WAIT, last, &second);
			/* By syscall(), like all that is asked for: whether this is ever reached depends on who is faster, and a first
			 * call of kill would fault in its code and its link in the midst of a step. */
			if (syscall(SYS_kill, (long)caller, 0L) && errno == ESRCH)
				_exit(3);
		}
		s = agent_obey(s);
		last = s->asked;
		agent_answer(s);
	}
}

/* ---- the first one's preparation ---- */

/* Hard limits can be lowered by anybody, and not be raised again. */
static int agent_limit(int what, uint64_t bytes)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)what, &r))
		return -errno;
	r.rlim_cur = r.rlim_max = MIN(r.rlim_max, (rlim_t)bytes);
	return setrlimit((__rlimit_resource_t)what, &r) ? -errno : 0;
}

static int agent_limits(const struct kagent_limits *l)
{
	int err = agent_limit(RLIMIT_CPU, CPU_SECONDS);

	if (!err)
		err = agent_limit(RLIMIT_CORE, 0);
	if (!err)
		err = agent_limit(RLIMIT_MEMLOCK, l->memlock_bytes);
	return err ? err : agent_limit(RLIMIT_STACK, l->stack_bytes);
}

static int agent_drop_capabilities(bool may_lock)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	memset(d, 0, sizeof(d));
	if (may_lock)
		d[0].permitted = d[0].effective = 1U << CAP_IPC_LOCK;
	return syscall(SYS_capset, &h, d) ? -errno : 0;
}

/* First to be killed when memory runs out. Needs no right. */
static void agent_offer_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (write(fd, "1000", 4) < 0)
			errno = 0;
		close(fd);
	}
}

/*
 * Fill the holes of the region that mmap searches, from what lies lowest in it upwards, and leave its new top where it is asked for: what
 * the script maps without a hint then lies below, apart from everything else. Shared memory without rights merges with nothing.
 */
static int agent_guard(uint64_t top, uint64_t *ret_top)
{
	static struct range hole[GUARD_MAX];
	struct kproc_areas a = { 0 };
	int err = kproc_read_areas(getpid(), &a);
	uint64_t low = 0, after = 0;
	size_t nr = 0;
	void *probe;

	if (err)
		return err;
	/* The region's upper part: all that lies above the stack's or the heap's place below the libraries. */
	probe = mmap(NULL, PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (probe == MAP_FAILED)
		return -errno;
	munmap(probe, PAGE_SIZE);
	for (size_t i = 0; i < a.nr; i++) {
		/* What is within 64 GiB above the place of a new page, or of anything that was found so, is in that region. */
		if (a.v[i].end + (64ULL << 30) < (uintptr_t)probe || !strcmp(a.v[i].name, "[stack]") || a.v[i].start >= 1ULL << 47)
			continue;
		if (!low)
			low = a.v[i].start;
		if (after && a.v[i].start > after && nr < GUARD_MAX - 1)
			hole[nr++] = (struct range){ after, a.v[i].start };
		after = a.v[i].end;
	}
	kproc_areas_done(&a);
	if (!low)
		return -ENOENT;
	*ret_top = ALIGN_DOWN(low, TOP_ALIGN) - TOP_ALIGN + (top & (TOP_ALIGN - 1));
	if (*ret_top != low)
		hole[nr++] = (struct range){ *ret_top, low };
	for (size_t i = 0; i < nr; i++)
		(void)mmap((void *)(uintptr_t)hole[i].start, hole[i].end - hole[i].start, PROT_NONE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	return 0;
}

/*
 * What the caller has mapped and the agent does not need: a script that locks all memory would bring it all in. (Sanitizers have memory of their own
 * that must stay.)
 */
static int agent_slim(void)
{
	struct kproc_areas a = { 0 };
	int err = kproc_read_areas(getpid(), &a);

	for (size_t i = 0; !err && i < a.nr; i++) {
		const struct kproc_area *v = &a.v[i];
		uint64_t s = (uintptr_t)shared;

		if (v->end - v->start >= LARGE && !*v->name && (v->end <= s || v->start >= s + sizeof(*shared)))
			munmap((void *)(uintptr_t)v->start, v->end - v->start);
	}
	kproc_areas_done(&a);
	return err;
}

/* A fresh break at `heap`. Kernels without checkpoint/restore keep the one there is. */
static uint64_t agent_heap(uint64_t heap)
{
	struct prctl_mm_map m;
	char buf[1024], *p;
	unsigned long long start_code, end_code, start_stack, start_data, end_data, arg_start, arg_end, env_start, env_end;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	p = strrchr(buf, ')');
	/* proc(5): fields 26 to 28 and 45 to 51; the name is field 2 */
	if (!p || sscanf(p + 2,
			 "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %llu "
			 "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %llu %llu %llu %llu",
			 &start_code, &end_code, &start_stack, &start_data, &end_data, &arg_start, &arg_end, &env_start, &env_end) != 9)
		return 0;
	memset(&m, 0, sizeof(m));
	m.start_code = start_code;
	m.end_code = end_code;
	m.start_data = start_data;
	m.end_data = end_data;
	m.start_brk = m.brk = heap;
	m.start_stack = start_stack;
	m.arg_start = arg_start;
	m.arg_end = arg_end;
	m.env_start = env_start;
	m.env_end = env_end;
	m.exe_fd = (uint32_t)-1;
	return prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof(m), 0) ? 0 : heap;
}

void kagent_start(struct shared *s, pid_t from, const struct kagent_limits *l, uint64_t heap, uint64_t top)
{
	shared = s;
	caller = from;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != caller)
		_exit(3);
	setpgid(0, 0);
	agent_offer_oom();
	agent_signals();
	shared->setup_error = agent_limits(l);
	if (!shared->setup_error && !SANITIZED)
		shared->setup_error = agent_slim();
	if (!shared->setup_error)
		shared->setup_error = agent_guard(top, &shared->top);
	shared->heap = heap ? agent_heap(heap) : 0;
	if (!shared->setup_error)
		shared->setup_error = agent_drop_capabilities(l->may_lock);
	shared->slot[0].pid = (int32_t)getpid();
	agent_answer(&shared->slot[0]);
	agent_loop(&shared->slot[0]);
}
