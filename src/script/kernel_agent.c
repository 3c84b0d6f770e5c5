/* Agents, the caller's side. See kernel_agent.h; kernel_agent_child.c is theirs. */
#define _GNU_SOURCE
#include "script/kernel_agent_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/types.h"
#include "script/kernel_proc.h"

#define MADV_POPULATE_READ_ 22 /* Linux 5.14, for headers that are older */
#define MADV_POPULATE_WRITE_ 23

/* A part of what agents have themselves. */
struct own {
	uint64_t start, end;
	bool readable, copied; /* may be read; is private and may be written */
};

struct kagents {
	struct shared *s;
	struct kagent_limits limits;
	struct kagent_layout layout;
	bool alive[KAGENT_MAX];
	pid_t group;
	struct own *own;
	size_t nr_own;
};

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
		if (kagent_futex(&s->done, FUTEX_WAIT, done, &slice) && errno == ETIMEDOUT && s->pid && is_gone(s->pid) &&
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
	kagent_futex(&s->asked, FUTEX_WAKE, 1, NULL);
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
		k->own[k->nr_own++] = (struct own){ a.v[i].start, a.v[i].end, a.v[i].perms[0] == 'r',
							a.v[i].perms[1] == 'w' && a.v[i].perms[3] == 'p' };
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
	pid_t pid, caller;
	int rc;

	if (!k)
		return -ENOMEM;
	k->limits = *l;
	k->s = mmap(NULL, sizeof(*k->s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (k->s == MAP_FAILED) {
		free(k);
		return -ENOMEM;
	}
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
		kagent_start(k->s, caller, l, heap, top);
	k->group = pid;
	setpgid(pid, pid);
	k->alive[0] = true;
	k->s->slot[0].pid = (int32_t)pid;
	rc = wait_answer(k, 0, 1);
	/* What a slow answer makes us write to is shared with the child since it was forked: fault in it now, not in the midst of a step. */
	(void)is_gone(pid);
	errno = 0;
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

void kagents_bring_in_own(struct kagents *k, unsigned who)
{
	for (size_t i = 0; i < k->nr_own; i++) {
		const struct own *o = &k->own[i];
		const uint64_t args[6] = { o->start, o->end - o->start, o->copied ? MADV_POPULATE_WRITE_ : MADV_POPULATE_READ_ };
		int64_t r;

		if (o->readable)
			(void)kagent_syscall(k, who, SYS_madvise, args, &r);
	}
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
