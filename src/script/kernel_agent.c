/* Agents: see kernel_agent.h. The agent's side is agent_*, the caller's the rest. */
#define _GNU_SOURCE
#include "script/kernel_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
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

enum order { ORDER_SYSCALL, ORDER_ACCESS, ORDER_FORK, ORDER_EXIT, ORDER_REAP };

struct slot {
	uint32_t asked, done; /* futexes: numbers of the last order and the last answer */
	uint32_t order;
	int32_t pid;
	uint64_t a[7];
	int64_t result;
	uint64_t value, nr_done;
	int32_t signal;
};

struct shared {
	struct slot slot[KAGENT_MAX];
	uint64_t top, heap;
	int32_t setup_error;
	uint8_t buf[KAGENT_MAX][KAGENT_BUF] __attribute__((aligned(4096)));
};

struct range {
	uint64_t start, end;
};

struct kagents {
	struct shared *s;
	struct kagent_limits limits;
	struct kagent_layout layout;
	bool alive[KAGENT_MAX];
	pid_t group;
	struct range *own;
	size_t nr_own;
};

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* ---- the agent's side ---- */

static struct shared *shared; /* an agent's; the caller has struct kagents */
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
	futex(&s->done, FUTEX_WAKE, 1, NULL);
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
			futex(&s->asked, FUTEX_WAIT, last, &second);
			if (kill(caller, 0) && errno == ESRCH)
				_exit(3);
		}
		s = agent_obey(s);
		last = s->asked;
		agent_answer(s);
	}
}

/* ---- the first agent's preparation ---- */

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

__attribute__((noreturn)) static void agent_start(const struct kagent_limits *l, uint64_t heap, uint64_t top)
{
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

/* ---- the caller's side ---- */

/* Has the process ended (or is it a zombie)? */
static bool is_gone(pid_t pid)
{
	char path[48], buf[256], *p;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return true;
	buf[n] = '\0';
	p = strrchr(buf, ')');
	return p && (p[2] == 'Z' || p[2] == 'X');
}

static int wait_answer(struct kagents *k, unsigned who, uint32_t asked)
{
	struct slot *s = &k->s->slot[who];
	const struct timespec slice = { .tv_nsec = 20000000 };
	uint32_t done;

	for (unsigned ms = 0; (done = __atomic_load_n(&s->done, __ATOMIC_ACQUIRE)) != asked; ms += 20) {
		if (ms >= k->limits.timeout_ms)
			return -ETIMEDOUT;
		if (futex(&s->done, FUTEX_WAIT, done, &slice) && errno == ETIMEDOUT && s->pid && is_gone(s->pid) &&
		    __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) != asked) {
			k->alive[who] = false;
			return -ECHILD;
		}
	}
	return 0;
}

static uint32_t ask(struct kagents *k, unsigned who, enum order order)
{
	struct slot *s = &k->s->slot[who];
	uint32_t asked = s->asked + 1;

	s->order = order;
	__atomic_store_n(&s->asked, asked, __ATOMIC_RELEASE);
	futex(&s->asked, FUTEX_WAKE, 1, NULL);
	return asked;
}

static int order(struct kagents *k, unsigned who, enum order order)
{
	if (who >= KAGENT_MAX || !k->alive[who])
		return -ECHILD;
	return wait_answer(k, who, ask(k, who, order));
}

/* What the agent has itself, and its share of the limits. */
static int survey(struct kagents *k)
{
	struct kproc_areas a = { 0 };
	uint64_t bytes = 0;
	pid_t pid = k->s->slot[0].pid;
	int err = kproc_read_areas(pid, &a);

	k->own = err ? NULL : malloc((a.nr + 1) * sizeof(*k->own));
	if (!err && !k->own)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < a.nr; i++)
		k->own[k->nr_own++] = (struct range){ a.v[i].start, a.v[i].end };
	kproc_areas_done(&a);
	if (!err)
		err = kproc_status_bytes(pid, "VmSize:", &bytes);
	if (!err && k->limits.as_bytes != UINT64_MAX) {
		struct rlimit as = { k->limits.as_bytes + bytes, k->limits.as_bytes + bytes };

		err = prlimit(pid, RLIMIT_AS, &as, NULL) ? -errno : 0;
	}
	return err;
}

int kagents_start(const struct kagent_limits *l, uint64_t heap, uint64_t top, struct kagents **ret,
		  char *err, size_t errlen)
{
	struct kagents *k = calloc(1, sizeof(*k));
	pid_t pid;
	int rc;

	if (!k)
		return -ENOMEM;
	k->limits = *l;
	k->s = mmap(NULL, sizeof(*k->s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k->s == MAP_FAILED) {
		free(k);
		return -ENOMEM;
	}
	shared = k->s;
	caller = getpid();
	k->s->slot[0].asked = 1;
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		rc = -errno;
		snprintf(err, errlen, "no process could be started: %s", strerror(-rc));
		munmap(k->s, sizeof(*k->s));
		free(k);
		return rc;
	}
	if (!pid)
		agent_start(l, heap, top);
	k->group = pid;
	setpgid(pid, pid);
	k->alive[0] = true;
	k->s->slot[0].pid = (int32_t)pid;
	rc = wait_answer(k, 0, 1);
	if (!rc)
		rc = k->s->setup_error;
	if (!rc)
		rc = survey(k);
	if (rc) {
		snprintf(err, errlen, "the process for the kernel's side could not be prepared: %s", strerror(-rc));
		kagents_stop(k);
		return rc;
	}
	k->layout = (struct kagent_layout){ .top = k->s->top, .heap = k->s->heap };
	*ret = k;
	return 0;
}

void kagents_stop(struct kagents *k)
{
	if (!k)
		return;
	if (k->group > 0) {
		kill(-k->group, SIGKILL);
		kill(k->group, SIGKILL);
		while (waitpid(k->group, NULL, 0) < 0 && errno == EINTR)
			;
	}
	munmap(k->s, sizeof(*k->s));
	free(k->own);
	free(k);
}

const struct kagent_layout *kagents_layout(const struct kagents *k)
{
	return &k->layout;
}

pid_t kagents_pid(const struct kagents *k, unsigned who)
{
	return who < KAGENT_MAX && k->alive[who] ? k->s->slot[who].pid : 0;
}

bool kagents_own(const struct kagents *k, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < k->nr_own; i++)
		if (k->own[i].start < end && k->own[i].end > start)
			return true;
	return false;
}

int kagent_syscall(struct kagents *k, unsigned who, long nr, const uint64_t args[6], int64_t *ret_result)
{
	struct slot *s = &k->s->slot[who];
	int err;

	memcpy(s->a, args, 6 * sizeof(args[0]));
	s->a[6] = (uint64_t)nr;
	err = order(k, who, ORDER_SYSCALL);
	*ret_result = s->result;
	return err;
}

int kagent_access(struct kagents *k, unsigned who, const struct kagent_accesses *a, uint64_t *ret_done, uint64_t *ret_value,
		  int *ret_signal)
{
	struct slot *s = &k->s->slot[who];
	int err;

	s->a[0] = a->how;
	s->a[1] = a->va;
	s->a[2] = a->stride;
	s->a[3] = a->nr;
	s->a[4] = a->value;
	err = order(k, who, ORDER_ACCESS);
	*ret_done = s->nr_done;
	*ret_value = s->value;
	*ret_signal = s->signal;
	return err;
}

void *kagent_buffer(struct kagents *k, unsigned who)
{
	return k->s->buf[who];
}

uint64_t kagent_buffer_va(const struct kagents *k, unsigned who)
{
	return (uintptr_t)k->s->buf[who]; /* agents are forks: the same place */
}

int kagent_fork(struct kagents *k, unsigned who, unsigned child, int64_t *ret_result)
{
	struct slot *s, *c;
	int err;

	if (who >= KAGENT_MAX || child >= KAGENT_MAX || k->alive[child])
		return -EINVAL;
	s = &k->s->slot[who];
	c = &k->s->slot[child];
	memset(c, 0, sizeof(*c));
	c->asked = 1; /* the child answers when it is there */
	s->a[0] = child;
	err = order(k, who, ORDER_FORK);
	*ret_result = s->result;
	if (err || s->result < 0)
		return err;
	*ret_result = 0;
	c->pid = (int32_t)s->result;
	k->alive[child] = true;
	return wait_answer(k, child, 1);
}

int kagent_exit(struct kagents *k, unsigned who)
{
	pid_t pid = kagents_pid(k, who);

	if (!pid || who >= KAGENT_MAX)
		return -ECHILD;
	ask(k, who, ORDER_EXIT);
	k->alive[who] = false;
	for (unsigned us = 0; !is_gone(pid); us += 100) {
		if (us / 1000 >= k->limits.timeout_ms)
			return -ETIMEDOUT;
		usleep(100);
	}
	return 0;
}

int kagent_wait(struct kagents *k, unsigned who, pid_t child)
{
	k->s->slot[who].a[0] = (uint64_t)child;
	return order(k, who, ORDER_REAP);
}

int kagents_check(struct kagents *k)
{
	uint64_t sum = 0, rss;

	for (unsigned i = 0; i < KAGENT_MAX; i++)
		if (k->alive[i] && !kproc_status_bytes(k->s->slot[i].pid, "VmRSS:", &rss))
			sum += rss;
	return sum > k->limits.rss_bytes ? -ENOMEM : 0;
}
