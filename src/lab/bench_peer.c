/*
 * The peers of the replay bench: valgrind's cachegrind and lackey on a program, and a client beside it where the
 * program is a server. Also the real program of the bench: redis.
 */
#include "lab/bench_int.h"

#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGS 64

const char *const bench_peer_names[NR_PEERS] = {
	[PEER_CACHEGRIND] = "valgrind --tool=cachegrind",
	[PEER_LACKEY] = "valgrind --tool=lackey --trace-mem=yes",
};

bool bench_have(const char *program)
{
	const char *path = getenv("PATH");
	char file[4096];

	for (const char *p = path ? path : ""; *p;) {
		size_t n = strcspn(p, ":");

		if (snprintf(file, sizeof(file), "%.*s/%s", (int)n, p, program) < (int)sizeof(file) &&
		    !access(file, X_OK))
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

/* In a session of its own and reparented, so that neither a recording nor our waiting sees it. */
int bench_start_client(const char *script)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		setsid();
		if (fork())
			_exit(0);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return 0;
}

static void exec_peer(enum bench_peer peer, char *const *argv, int errfd)
{
	char *args[MAX_ARGS + 8];
	size_t n = 0;
	int null = open("/dev/null", O_RDWR);

	args[n++] = (char *)(uintptr_t) "valgrind";
	if (peer == PEER_CACHEGRIND) {
		args[n++] = (char *)(uintptr_t) "--tool=cachegrind";
		args[n++] = (char *)(uintptr_t) "--cachegrind-out-file=/dev/null";
	} else {
		args[n++] = (char *)(uintptr_t) "--tool=lackey";
		args[n++] = (char *)(uintptr_t) "--trace-mem=yes";
		args[n++] = (char *)(uintptr_t) "--log-file=/dev/null";
	}
	for (size_t i = 0; i < MAX_ARGS && argv[i]; i++)
		args[n++] = argv[i];
	args[n] = NULL;
	dup2(null, 0);
	dup2(null, 1);
	dup2(errfd, 2);
	execvp(args[0], args);
	_exit(127);
}

/* "==123== D   refs:       12,345,678  (8,000 rd + ...". */
static uint64_t data_refs(FILE *f)
{
	char line[512];
	uint64_t v = 0;

	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		const char *p = strstr(line, " D   refs:"), *q = p ? p : strstr(line, " D refs:");

		if (!q)
			continue;
		v = 0;
		for (q = strchr(q, ':') + 1; *q && *q != '('; q++)
			if (*q >= '0' && *q <= '9')
				v = v * 10 + (uint64_t)(*q - '0');
	}
	return v;
}

int bench_run_peer(enum bench_peer peer, char *const *argv, const char *client, uint64_t *ret_ns, uint64_t *ret_refs)
{
	FILE *f = tmpfile();
	struct rusage ru;
	int status, rc = 0;
	pid_t pid;

	if (!f)
		return -errno;
	if (client)
		rc = bench_start_client(client);
	pid = rc ? -1 : fork();
	if (!pid)
		exec_peer(peer, argv, fileno(f));
	if (pid < 0) {
		rc = rc ? rc : -errno;
		fclose(f);
		return rc;
	}
	while (wait4(pid, &status, 0, &ru) < 0)
		if (errno != EINTR) {
			fclose(f);
			return -errno;
		}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		rc = WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOENT : -ECHILD;
	*ret_ns = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000000ULL +
		  (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000ULL;
	*ret_refs = peer == PEER_CACHEGRIND ? data_refs(f) : 0;
	fclose(f);
	return rc;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double bench_median(double *v, size_t n, double *ret_low, double *ret_high)
{
	double tail = 1, term = 1;
	size_t k = 0;

	qsort(v, n, sizeof(*v), compare_doubles);
	/* The median lies outside [v[k], v[n-1-k]] with probability 2 * P(Binomial(n, 1/2) <= k). */
	for (size_t i = 0; i < n; i++)
		term /= 2;
	tail = term;
	for (size_t i = 1; i < n / 2; i++) {
		term = term * (double)(n - i + 1) / (double)i;
		tail += term;
		if (2 * tail > 0.05)
			break;
		k = i;
	}
	*ret_low = v[k];
	*ret_high = v[n - 1 - k];
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- redis ---- */

static void redis_describe(struct bench_redis *r)
{
	static const char *const args[] = { "redis-server", "--save", "",	   "--port",	"0",
					    "--appendonly", "no",     "--logfile", "/dev/null", "--unixsocket" };
	size_t n = 0;

	for (; n < sizeof(args) / sizeof(args[0]); n++)
		r->argv[n] = (char *)(uintptr_t)args[n];
	r->argv[n++] = r->socket;
	r->argv[n] = NULL;
	snprintf(r->client, sizeof(r->client),
		 "i=0; while [ ! -S %s ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; "
		 "redis-benchmark -s %s -q -n 20000 -r 10000 -P 16 -t set,get,lpush; redis-cli -s %s shutdown nosave",
		 r->socket, r->socket, r->socket);
}

int bench_redis_record(struct bench_redis *r, const volatile bool *stop, char *err, size_t errlen)
{
	const struct trace_meta meta = { .command = "redis-server under redis-benchmark",
					 .recorder = "quire " QUIRE_VERSION };
	struct record_options o = { .stop = stop };
	struct record_result res;
	struct trace_writer *w;
	int rc, rc2;

	snprintf(r->dir, sizeof(r->dir), "/tmp/quire-bench-XXXXXX");
	if (!mkdtemp(r->dir)) {
		rc = -errno;
		snprintf(err, errlen, "%s: %s", r->dir, strerror(-rc));
		r->dir[0] = 0;
		return rc;
	}
	snprintf(r->socket, sizeof(r->socket), "%s/socket", r->dir);
	snprintf(r->trace, sizeof(r->trace), "%s/redis.qtr", r->dir);
	redis_describe(r);
	rc = trace_writer_create(r->trace, &meta, &w, err, errlen);
	if (rc)
		return rc;
	o.argv = r->argv;
	rc = bench_start_client(r->client);
	if (!rc)
		rc = record_run(&o, trace_writer_sink(w), &res, err, errlen);
	rc2 = trace_writer_close(w, err, rc ? 0 : errlen);
	unlink(r->socket);
	return rc ? rc : rc2;
}

void bench_redis_done(struct bench_redis *r)
{
	if (!r->dir[0])
		return;
	unlink(r->socket);
	unlink(r->trace);
	rmdir(r->dir);
}
