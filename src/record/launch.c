/*
 * Before a recording: finding the emulator and the plugin, making the shared memory, starting the first program. The
 * memory has no name, so nothing is left behind whatever happens; programs reach it through this process's
 * descriptor.
 */
#define _GNU_SOURCE
#include "record/plan.h"
#include "record/record_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Half of a common L2 cache: a thread that walks through 4 MiB of ring takes twice as long. */
#define RING_BYTES_DEFAULT (1ULL << 20)
#define RING_CHUNKS 8
#define RING_BYTES_MIN (64ULL << 10)
#define RING_BYTES_MAX (256ULL << 20)
#define PLUGIN_NAME "libquire-record.so"

extern char **environ;

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Like the shell: a name with a slash is a path, others are looked up. 0, -ENOENT or -EACCES (found, but not executable). */
static int find_in_path(const char *name, char *ret, size_t len)
{
	const char *path = getenv("PATH"), *end;
	int e = -ENOENT;

	if (strchr(name, '/')) {
		snprintf(ret, len, "%s", name);
		return access(ret, F_OK) == 0 ? 0 : -errno;
	}
	for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *name && path; path = end ? end + 1 : NULL) {
		int n;

		end = strchr(path, ':');
		n = end ? (int)(end - path) : (int)strlen(path);
		snprintf(ret, len, "%.*s%s%s", n, path, n ? "/" : "./", name);
		if (is_program(ret))
			return 0;
		if (access(ret, F_OK) == 0)
			e = -EACCES;
	}
	return e;
}

static int check_version(const char *qemu, char *err, size_t errlen)
{
	char cmd[PATH_MAX + 32], line[256] = "";
	int major = 0, minor = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "'%s' --version 2>/dev/null", qemu);
	f = strchr(qemu, '\'') ? NULL : popen(cmd, "re");
	if (f) {
		if (!fgets(line, sizeof(line), f))
			line[0] = '\0';
		pclose(f);
	}
	if (sscanf(line, "qemu-x86_64 version %d.%d", &major, &minor) != 2) {
		snprintf(err, errlen, "%s: not a working qemu-x86_64 (on Debian 12: apt install qemu-user)", qemu);
		return -ENOEXEC;
	}
	if (major != 7 || minor != 2) {
		snprintf(err, errlen, "%s is version %d.%d; recording needs 7.2, Debian 12's (apt install qemu-user)", qemu,
			 major, minor);
		return -ENOTSUP;
	}
	return 0;
}

static bool try_plugin(const char *dir, const char *below, char *ret, size_t len)
{
	char path[PATH_MAX], full[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s/%s", dir, below, PLUGIN_NAME) >= (int)sizeof(path))
		return false;
	if (access(path, R_OK) < 0 || !realpath(path, full) || strlen(full) >= len)
		return false;
	snprintf(ret, len, "%s", full);
	return true;
}

/* Beside the binary, in the build tree above it, or where it is installed. */
static bool find_plugin(char *ret, size_t len)
{
	static const char *const below[] = { "", "/src/record", "/src/record/plugin", "/lib/quire",
					     "/lib/x86_64-linux-gnu/quire" };
	char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

	if (n <= 0)
		return false;
	dir[n] = '\0';
	for (int up = 0; up < 4; up++) {
		char *slash = strrchr(dir, '/');

		if (!slash)
			break;
		*slash = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(below); i++)
			if (try_plugin(dir, below[i], ret, len))
				return true;
	}
#ifdef QUIRE_PLUGIN_DIR
	return try_plugin(QUIRE_PLUGIN_DIR, "", ret, len);
#else
	return false;
#endif
}

int launch_find(const struct record_options *o, char *qemu, char *plugin, size_t len, char *err, size_t errlen)
{
	char found[PATH_MAX], full[PATH_MAX];
	int e;

	if (find_in_path(o->qemu ? o->qemu : "qemu-x86_64", found, sizeof(found)) < 0) {
		snprintf(err, errlen, "%s: not found; recording needs it (on Debian 12: apt install qemu-user)",
			 o->qemu ? o->qemu : "qemu-x86_64");
		return -ENOENT;
	}
	/* Programs that change their directory start it again. */
	if (found[0] == '/')
		snprintf(full, sizeof(full), "%s", found);
	else if (!realpath(found, full))
		full[0] = '\0';
	if (!full[0] || snprintf(qemu, len, "%s", full) >= (int)len) {
		snprintf(err, errlen, "%s: name too long", found);
		return -ENAMETOOLONG;
	}
	if ((e = check_version(qemu, err, errlen)) < 0)
		return e;
	if (o->plugin) {
		if (access(o->plugin, R_OK) < 0 || !realpath(o->plugin, found) || strlen(found) >= len) {
			snprintf(err, errlen, "%s: %s", o->plugin, strerror(errno));
			return -ENOENT;
		}
		snprintf(plugin, len, "%s", found);
	} else if (!find_plugin(plugin, len)) {
		snprintf(err, errlen, "%s: the recorder's plugin is neither beside quire nor installed (make build)",
			 PLUGIN_NAME);
		return -ENOENT;
	}
	return 0;
}

/* The emulator cuts its plugin argument at commas; a double one stands for one. */
static int escape_commas(const char *from, char *to, size_t len)
{
	size_t k = 0;

	for (; *from; from++) {
		if (k + 3 > len)
			return -ENAMETOOLONG;
		if (*from == ',')
			to[k++] = ',';
		to[k++] = *from;
	}
	to[k] = '\0';
	return 0;
}

static uint64_t ring_size(uint64_t bytes)
{
	uint64_t n = RING_BYTES_MIN;

	if (!bytes)
		return RING_BYTES_DEFAULT;
	while (n < bytes && n < RING_BYTES_MAX)
		n *= 2;
	return n;
}

int session_create(struct session *s, const struct record_options *o, const char *qemu, const char *plugin, char *err,
		   size_t errlen)
{
	uint64_t bytes = ring_size(o->ring_bytes), stride = RING_HEADER_BYTES + bytes;
	uint64_t first = ALIGN_UP(sizeof(struct ring_shared), 4096UL), total = first + RING_MAX * stride;
	struct ring_shared *sh = MAP_FAILED;
	int e;

	*s = (struct session){ .fd = memfd_create("quire-rings", MFD_CLOEXEC) };
	if (s->fd >= 0 && ftruncate(s->fd, (off_t)total) == 0)
		sh = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (sh == MAP_FAILED) {
		e = errno;
		snprintf(err, errlen, "shared memory for the recording: %s", strerror(e));
		if (s->fd >= 0)
			close(s->fd);
		return -e;
	}
	s->shared = sh;
	sh->magic = RING_MAGIC;
	sh->version = RING_VERSION;
	sh->nr_rings = RING_MAX;
	sh->ring_words = bytes / 8;
	sh->chunk_words = MIN(sh->ring_words / RING_CHUNKS, 65536UL);
	sh->first = first;
	sh->stride = stride;
	sh->bytes = total;
	sh->drain_pid = getpid();
	snprintf(sh->path, sizeof(sh->path), "/proc/%d/fd/%d", (int)getpid(), s->fd);
	snprintf(sh->qemu, sizeof(sh->qemu), "%s", qemu);
	if (escape_commas(plugin, sh->plugin, sizeof(sh->plugin)) < 0) {
		snprintf(err, errlen, "%s: name too long", plugin);
		session_destroy(s);
		return -ENAMETOOLONG;
	}
	return 0;
}

void session_destroy(struct session *s)
{
	if (s->shared)
		munmap(s->shared, s->shared->bytes);
	if (s->fd >= 0)
		close(s->fd);
	s->shared = NULL;
	s->fd = -1;
}

static int spawn(struct session *s, const struct exec_command *c)
{
	posix_spawnattr_t attr;
	sigset_t none;
	int e;

	e = posix_spawnattr_init(&attr);
	if (e)
		return -e;
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	e = posix_spawn(&s->first, s->shared->qemu, NULL, &attr, c->argv, c->envp);
	posix_spawnattr_destroy(&attr);
	return -e;
}

int session_start(struct session *s, const struct record_options *o, char *err, size_t errlen)
{
	char path[PATH_MAX], arg[RING_PATH_MAX * 2 + 160];
	struct exec_command c;
	struct exec_plan p;
	int e;

	if (!o->argv || !o->argv[0] || !o->argv[0][0]) {
		snprintf(err, errlen, "no program was named");
		return -EINVAL;
	}
	e = find_in_path(o->argv[0], path, sizeof(path));
	if (e < 0) {
		snprintf(err, errlen, "%s: %s", o->argv[0], e == -ENOENT ? "no such program" :
			 e == -EACCES ? "not executable" : strerror(-e));
		return e;
	}
	e = exec_plan_make(path, o->argv, NULL, &p, err, errlen);
	if (e < 0)
		return e;
	snprintf(arg, sizeof(arg), "%s,shm=%s", s->shared->plugin, s->shared->path);
	e = exec_command_make(&p, s->shared->qemu, arg, environ, &c);
	if (e == 0) {
		e = spawn(s, &c);
		exec_command_free(&c);
	}
	exec_plan_free(&p);
	if (e < 0)
		snprintf(err, errlen, "%s: %s", o->argv[0], strerror(-e));
	return e;
}
