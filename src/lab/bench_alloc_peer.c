/* The others in `quire bench alloc`: a program that drives another allocator, and the kernel's faults. */
#define _GNU_SOURCE
#include "lab/bench_alloc.h"

#include "base/types.h"
#include "lab/bench_sides.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KERNEL_REPEATS 20000U

const char *const alloc_pattern_names[NR_ALLOC_PATTERNS] = { "bulk", "repeat", "rand" };

/* Run a program and read the beginning of what it prints. */
static int run_and_read(char *const *argv, char *buf, size_t len)
{
	int fds[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		execv(argv[0], argv);
		_exit(127);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -EAGAIN;
	}
	while (n + 1 < len && ((got = read(fds[0], buf + n, len - 1 - n)) > 0 || (got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	buf[n] = 0;
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -ECHILD;
}

int bench_alloc_peer(const char *program, enum alloc_pattern pattern, unsigned order, unsigned tasks, uint64_t bytes, double *ret_ns,
		     char *err, size_t errlen)
{
	char order_s[16], tasks_s[16], bytes_s[24], out[128], *end, *path = strdup(program), *name = strdup(alloc_pattern_names[pattern]);
	char *argv[] = { path, name, order_s, tasks_s, bytes_s, NULL };
	int rc = path && name ? 0 : -ENOMEM;

	snprintf(order_s, sizeof(order_s), "%u", order);
	snprintf(tasks_s, sizeof(tasks_s), "%u", tasks);
	snprintf(bytes_s, sizeof(bytes_s), "%" PRIu64, bytes);
	if (!rc)
		rc = run_and_read(argv, out, sizeof(out));
	free(path);
	free(name);
	if (rc) {
		snprintf(err, errlen, "%s %s %s %s %s: it failed", program, alloc_pattern_names[pattern], order_s, tasks_s, bytes_s);
		return rc;
	}
	*ret_ns = strtod(out, &end);
	if (end == out || !(*ret_ns > 0) || isinf(*ret_ns) || (*end && *end != '\n')) {
		snprintf(err, errlen, "%s %s %s %s %s: its first line is not a number of ns above 0", program,
			 alloc_pattern_names[pattern], order_s, tasks_s, bytes_s);
		return -EPROTO;
	}
	return 0;
}

/* ---- the kernel ---- */

struct faulter {
	pthread_t thread;
	enum alloc_pattern pattern;
	bool huge;
	uint64_t bytes;
	unsigned cpu;
	double ns;
	int rc;
};

static void *fault_main(void *arg)
{
	struct faulter *f = arg;
	struct bench_side s = { .ops = &bench_kernel };
	uint64_t step = f->huge ? PMD_SIZE : PAGE_SIZE, n = f->bytes / step, at, from;
	bool repeat = f->pattern == ALLOC_REPEAT;

	bench_pin(bench_real_cpu(f->cpu));
	f->rc = s.ops->map(&s, repeat ? step : f->bytes, f->huge, &at);
	if (f->rc)
		return NULL;
	if (repeat)
		n = f->huge ? KERNEL_REPEATS / 64 : KERNEL_REPEATS;
	from = bench_cpu_ns();
	if (!repeat)
		f->rc = s.ops->write(&s, at, f->bytes, step);
	for (uint64_t i = 0; repeat && i < n && !f->rc; i++) {
		f->rc = s.ops->write(&s, at, step, step);
		if (!f->rc)
			f->rc = s.ops->discard(&s, at, step);
	}
	s.ops->unmap(&s, at, repeat ? step : f->bytes);
	f->ns = (double)(bench_cpu_ns() - from) / (double)n;
	return NULL;
}

int bench_alloc_kernel(enum alloc_pattern pattern, unsigned order, unsigned tasks, uint64_t bytes, double *ret_ns)
{
	struct faulter f[BENCH_ALLOC_MAX_CPUS];
	unsigned started = 0;
	int rc = 0;

	if (pattern == ALLOC_RAND || (order && order != HPAGE_PMD_ORDER) || tasks > BENCH_ALLOC_MAX_CPUS)
		return -ENOTSUP;
	*ret_ns = 0;
	for (; started < tasks && !rc; started++) {
		f[started] = (struct faulter){ .pattern = pattern, .huge = order != 0, .bytes = ALIGN_DOWN(bytes / tasks, PMD_SIZE), .cpu = started };
		if (pthread_create(&f[started].thread, NULL, fault_main, &f[started]))
			rc = -EAGAIN;
	}
	if (rc)
		started--;
	for (unsigned i = 0; i < started; i++) {
		pthread_join(f[i].thread, NULL);
		rc = rc ? rc : f[i].rc;
		*ret_ns += f[i].ns / tasks;
	}
	return rc;
}
